// Holds documents against a JSON schema: {schema, documents} on standard input, the faults of each on standard output.
import { readFileSync } from "node:fs";
import Ajv from "ajv";

const { schema, documents } = JSON.parse(readFileSync(0, "utf-8"));
const check = new Ajv({ allErrors: true }).compile(schema);
const faults = (one) => (check(one) ? [] : check.errors.map((error) => `${error.instancePath} ${error.message}`));
process.stdout.write(JSON.stringify(documents.map(faults)));
