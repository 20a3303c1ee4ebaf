// An OpenID provider for a test: `node oidc_provider.mjs PROVIDER PORT SETTINGS`. PROVIDER is where the package
// oidc-provider is, SETTINGS a file with `keys` (private JWKs, the first signs) and `alg`. A line on the standard input
// has it read SETTINGS again. It prints a line whenever it is ready.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [place, port, file] = process.argv.slice(2);
const { default: Provider } = await import(pathToFileURL(place).href);

function made() {
  const { keys, alg } = JSON.parse(readFileSync(file, "utf8"));
  const resource = { scope: "subscriber publisher", accessTokenTTL: 600, accessTokenFormat: "jwt", jwt: { sign: { alg } } };
  return new Provider(`http://127.0.0.1:${port}`, {
    jwks: { keys },
    scopes: ["subscriber", "publisher"],
    clients: [
      {
        client_id: "sensor",
        client_secret: "a-secret-of-a-test",
        grant_types: ["client_credentials"],
        redirect_uris: [],
        response_types: [],
        id_token_signed_response_alg: alg,
      },
    ],
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_, audience) => ({ ...resource, audience }),
      },
    },
    extraTokenClaims: () => ({ "https://broker.example/read": "kind = 'a'", sources: ["hut-*"] }),
  }).callback();
}

let answer = made();
createServer((request, response) => answer(request, response)).listen(Number(port), "127.0.0.1", () => console.log("ready"));
createInterface({ input: process.stdin }).on("line", () => {
  answer = made();
  console.log("ready");
});
