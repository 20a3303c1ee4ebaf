package tidegate;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's file system of this machine, checksums and all, which sets permissions itself. Hadoop's own starts the
 * program chmod for each file it makes, unless a native library is there that PySpark does not have; that was a fifth
 * of the time of an empty batch. `make jar` compiles this file, with the compiler that Spark brings, to plain.jar.
 */
public class PlainLocalFileSystem extends LocalFileSystem {
  public static class Raw extends RawLocalFileSystem {
    public void setPermission(Path path, FsPermission permission) throws IOException {
      String letters = permission.getUserAction().SYMBOL
        + permission.getGroupAction().SYMBOL + permission.getOtherAction().SYMBOL;
      Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(letters));
    }
  }

  public PlainLocalFileSystem() {
    super(new Raw());
  }
}
