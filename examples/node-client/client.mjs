// A client of pywheel's HTTP API whose calls are checked by the types of the OpenAPI document.
import createClient from "openapi-fetch";

/**
 * @param {string | undefined} baseUrl such as http://127.0.0.1:8080
 * @param {string | undefined} token of `pywheel token add`; none for an open server
 * @returns {import("openapi-fetch").Client<import("./schema.d.ts").paths>}
 */
export function connect(baseUrl, token) {
  return createClient({ baseUrl, headers: token ? { authorization: `Bearer ${token}` } : {} });
}
