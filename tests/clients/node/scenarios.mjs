// The scenarios in Node, with the client of examples/node-client, which is made from the OpenAPI document.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "../client.mjs";

const api = connect(process.env.PYWHEEL_URL, process.env.PYWHEEL_TOKEN);

/** What each operation is; paths and parameters are checked by the types of the document. @type {Record<string, (step: any) => Promise<any>>} */
const calls = {
  putJob: (s) => api.POST("/v1/jobs", { params: { header: s.headers }, body: s.body }),
  putJobs: (s) => api.POST("/v1/jobs/batch", { params: { header: s.headers }, body: s.body }),
  getJob: (s) => api.GET("/v1/jobs/{id}", { params: { path: s.path } }),
  getJobByKey: (s) => api.GET("/v1/jobs/by-key", { params: { query: s.query } }),
  getJobHistory: (s) => api.GET("/v1/jobs/{id}/history", { params: { path: s.path } }),
  findJobs: (s) => api.GET("/v1/jobs", { params: { query: s.query } }),
  cancelJob: (s) => api.POST("/v1/jobs/{id}/cancel", { params: { path: s.path, header: s.headers } }),
  cancelJobByKey: (s) => api.POST("/v1/jobs/by-key/cancel", { params: { query: s.query } }),
  rescheduleJob: (s) => api.POST("/v1/jobs/{id}/reschedule", { params: { path: s.path, header: s.headers }, body: s.body }),
  retryJob: (s) => api.POST("/v1/jobs/{id}/retry", { params: { path: s.path }, body: s.body }),
  reserveJobs: (s) => api.POST("/v1/reserve", { params: { header: s.headers }, body: s.body }),
  ackClaim: (s) => api.POST("/v1/claims/{receipt}/ack", { params: { path: s.path, header: s.headers } }),
  nackClaim: (s) => api.POST("/v1/claims/{receipt}/nack", { params: { path: s.path }, body: s.body }),
  touchClaim: (s) => api.POST("/v1/claims/{receipt}/touch", { params: { path: s.path }, body: s.body }),
  releaseClaim: (s) => api.POST("/v1/claims/{receipt}/release", { params: { path: s.path } }),
};

/** @param {any} value @param {Record<string, string>} known @returns {any} */
function filled(value, known) {
  if (typeof value === "string") return value.replace(/\{(\w+)\}/g, (whole, name) => known[name] ?? whole);
  if (Array.isArray(value)) return value.map((inner) => filled(inner, known));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, filled(inner, known)]));
}

/** @param {any} value @param {string} pointer */
const at = (value, pointer) => pointer.split("/").slice(1).reduce((inner, part) => inner?.[part], value);

const { scenarios } = JSON.parse(readFileSync(process.argv[2], "utf8"));
for (const [number, scenario] of scenarios.entries()) {
  /** @type {Record<string, string>} */
  const known = { topic: `node-${number}` };
  for (const [place, raw] of scenario.steps.entries()) {
    const where = `${scenario.name}, step ${place}`;
    if (raw.sleep) {
      await sleep(raw.sleep * 1000);
      continue;
    }
    const step = filled(raw, known);
    const { data, error, response } = await calls[step.call](step);
    const found = data ?? error;
    assert.equal(response.status, step.status, `${where}: ${response.status} ${JSON.stringify(found)}`);
    for (const [pointer, wanted] of Object.entries(step.is ?? {})) assert.deepEqual(at(found, pointer), wanted, `${where}: ${pointer}`);
    for (const pointer of step.absent ?? []) assert.equal(at(found, pointer), undefined, `${where}: ${pointer}`);
    for (const [name, pointer] of Object.entries(step.save ?? {})) known[name] = at(found, String(pointer));
    for (const [name, header] of Object.entries(step.save_headers ?? {})) known[name] = response.headers.get(String(header));
  }
  console.log("ok", scenario.name);
}
