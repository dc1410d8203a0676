// A worker: takes jobs as they become due, one at a time, until Ctrl-C. PYWHEEL_URL=... PYWHEEL_TOKEN=... node worker.mjs
import { setTimeout as pause } from "node:timers/promises";
import { connect } from "./client.mjs";

const api = connect(process.env.PYWHEEL_URL, process.env.PYWHEEL_TOKEN);
let working = true;
process.once("SIGINT", () => (working = false));

/**
 * Asks until the server answers: it may be away for a while, or have no room. Returns nothing after so many tries.
 * @template {{ response: Response }} T
 * @param {number} tries
 * @param {() => Promise<T>} ask
 * @returns {Promise<T | undefined>}
 */
async function answered(tries, ask) {
  for (; tries > 0; tries -= 1) {
    try {
      const answer = await ask();
      if (answer.response.status < 500 && answer.response.status !== 429) return answer;
    } catch (failure) {
      console.error(String(failure));
    }
    await pause(1000);
  }
}

while (working) {
  const wish = { topics: ["mail"], wait: 20, ttr: "2m" };
  const answer = await answered(1, () => api.POST("/v1/reserve", { body: wish }));
  if (answer?.error) throw new Error(`${answer.error.title}: ${answer.error.detail}`);
  for (const job of answer?.data?.jobs ?? []) {
    const params = { path: { receipt: job.receipt } };
    try {
      console.log("mail to", job.body);
    } catch (failure) {
      const body = { delay: "30s", error: String(failure) };
      await answered(30, () => api.POST("/v1/claims/{receipt}/nack", { params, body }));
      continue;
    }
    await answered(30, () => api.POST("/v1/claims/{receipt}/ack", { params }));
  }
}
