// A worker: takes jobs as they become due, one at a time, until Ctrl-C. PYWHEEL_URL=... PYWHEEL_TOKEN=... node worker.mjs
import { connect } from "./client.mjs";

const api = connect(process.env.PYWHEEL_URL, process.env.PYWHEEL_TOKEN);
let working = true;
process.once("SIGINT", () => (working = false));

while (working) {
  const { data, error } = await api.POST("/v1/reserve", { body: { topics: ["mail"], wait: 20, ttr: "2m" } });
  if (error) throw new Error(`${error.title}: ${error.detail}`);
  for (const job of data?.jobs ?? []) {
    const params = { path: { receipt: job.receipt } };
    try {
      console.log("mail to", job.body);
      await api.POST("/v1/claims/{receipt}/ack", { params });
    } catch (failure) {
      await api.POST("/v1/claims/{receipt}/nack", { params, body: { delay: "30s", error: String(failure) } });
    }
  }
}
