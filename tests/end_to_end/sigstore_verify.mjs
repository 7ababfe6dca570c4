// Sigstore's own verifier on bundles that are signed by a plain key: sigstore_verify.mjs FILE
// FILE is a JSON array of {name, bundle, keys: {hint: SPKI in base64}}. Prints {name, outcome} for each: "accepted", or the
// code of the refusal. No transparency log, no certificate and no time stamp is asked for: the bundles have none.
import { readFileSync } from "node:fs";
import { bundleFromJSON } from "@sigstore/bundle";
import { toSignedEntity, toTrustMaterial, Verifier } from "@sigstore/verify";

const nobody = { certificateAuthorities: [], timestampAuthorities: [], tlogs: [], ctlogs: [] };
const thresholds = { tlogThreshold: 0, ctlogThreshold: 0, timestampThreshold: 0 };

for (const { name, bundle, keys } of JSON.parse(readFileSync(process.argv[2], "utf8"))) {
  const trusted = Object.entries(keys).map(([hint, spki]) => [hint, { rawBytes: Buffer.from(spki, "base64") }]);
  const verifier = new Verifier(toTrustMaterial(nobody, Object.fromEntries(trusted)), thresholds);
  let outcome = "accepted";
  try {
    verifier.verify(toSignedEntity(bundleFromJSON(bundle)));
  } catch (error) {
    outcome = error.code ?? error.name;
  }
  console.log(JSON.stringify({ name, outcome }));
}
