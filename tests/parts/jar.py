"""``python -m tests.parts.jar`` makes ``plain.jar`` from the Java beside it, with the compiler that Spark brings."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import tidegate.pipeline

__all__ = ["JAR", "classes", "compiled"]

SOURCE = Path(tidegate.pipeline.__file__).parent / "jvm" / "tidegate" / "PlainLocalFileSystem.java"
JAR = SOURCE.parents[1] / "plain.jar"


def compiled(spark: Any) -> dict[str, bytes]:
    """The classes that the source gives."""
    compiler = spark._jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(SOURCE.read_text())
    codes = compiler.getBytecodes()
    return {f"{name.replace('.', '/')}.class": bytes(codes[name]) for name in codes}


def classes() -> dict[str, bytes]:
    """The classes in the jar."""
    with zipfile.ZipFile(JAR) as jar:
        return {name: jar.read(name) for name in jar.namelist()}


if __name__ == "__main__":
    from tidegate.pipeline.session import session

    found = session(settings={"spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem"})
    with zipfile.ZipFile(JAR, "w") as jar:
        for name, code in sorted(compiled(found).items()):
            jar.writestr(zipfile.ZipInfo(name), code)
    found.stop()
