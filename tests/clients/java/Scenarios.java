// The scenarios in Java, with a client that is generated from the OpenAPI document.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.net.http.HttpHeaders;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import pywheel.client.ApiClient;
import pywheel.client.ApiException;
import pywheel.client.ApiResponse;
import pywheel.client.api.ManyJobsApi;
import pywheel.client.api.OneJobApi;
import pywheel.client.api.PutApi;
import pywheel.client.api.WorkApi;
import pywheel.client.model.Nack;
import pywheel.client.model.NewJob;
import pywheel.client.model.NewJobs;
import pywheel.client.model.Reschedule;
import pywheel.client.model.Reserve;
import pywheel.client.model.Retry;
import pywheel.client.model.Touch;

public class Scenarios {
    private static final ApiClient client = new ApiClient();
    private static final ObjectMapper json = client.getObjectMapper();
    private static Map<String, String> known;

    public static void main(String[] arguments) throws Exception {
        client.updateBaseUri(System.getenv("PYWHEEL_URL"));
        client.setRequestInterceptor(
            request -> request.header("Authorization", "Bearer " + System.getenv("PYWHEEL_TOKEN")));
        int number = 0;
        for (JsonNode scenario : new ObjectMapper().readTree(new File(arguments[0])).get("scenarios")) {
            known = new HashMap<>(Map.of("topic", "java-" + number++));
            int place = 0;
            for (JsonNode step : scenario.get("steps")) {
                String where = scenario.get("name").asText() + ", step " + place++;
                if (step.has("sleep")) {
                    Thread.sleep((long) (1000 * step.get("sleep").asDouble()));
                } else {
                    take(filled(step), where);
                }
            }
            System.out.println("ok " + scenario.get("name").asText());
        }
    }

    private static void take(JsonNode step, String where) throws Exception {
        int status;
        JsonNode found;
        HttpHeaders headers;
        try {
            ApiResponse<?> answer = call(step);
            status = answer.getStatusCode();
            found = json.valueToTree(answer.getData());
            headers = HttpHeaders.of(answer.getHeaders(), (name, value) -> true);
        } catch (ApiException problem) {
            status = problem.getCode();
            found = json.readTree(problem.getResponseBody());
            headers = problem.getResponseHeaders();
        }
        check(status == step.get("status").asInt(), where + ": " + status + " " + found);
        for (Map.Entry<String, JsonNode> one : fields(step, "is")) {
            check(found.at(one.getKey()).equals(one.getValue()), where + ": " + one.getKey() + " of " + found);
        }
        for (JsonNode pointer : step.path("absent")) {
            check(found.at(pointer.asText()).isEmpty(), where + ": there is " + pointer + " in " + found);
        }
        for (Map.Entry<String, JsonNode> one : fields(step, "save")) {
            known.put(one.getKey(), found.at(one.getValue().asText()).asText());
        }
        for (Map.Entry<String, JsonNode> one : fields(step, "save_headers")) {
            known.put(one.getKey(), headers.firstValue(one.getValue().asText()).orElseThrow());
        }
    }

    private static ApiResponse<?> call(JsonNode step) throws Exception {
        PutApi put = new PutApi(client);
        OneJobApi job = new OneJobApi(client);
        ManyJobsApi jobs = new ManyJobsApi(client);
        WorkApi work = new WorkApi(client);
        String id = text(step, "/path/id"), receipt = text(step, "/path/receipt");
        String topic = text(step, "/query/topic"), key = text(step, "/query/key");
        String once = text(step, "/headers/Idempotency-Key"), tag = text(step, "/headers/If-Match");
        switch (step.get("call").asText()) {
            case "putJob": return put.putJobWithHttpInfo(body(step, NewJob.class), once, null);
            case "putJobs": return put.putJobsWithHttpInfo(body(step, NewJobs.class), once, null);
            case "getJob": return job.getJobWithHttpInfo(id, null);
            case "getJobByKey": return job.getJobByKeyWithHttpInfo(topic, key, null);
            case "getJobHistory": return job.getJobHistoryWithHttpInfo(id);
            case "cancelJob": return job.cancelJobWithHttpInfo(id, once, tag);
            case "cancelJobByKey": return job.cancelJobByKeyWithHttpInfo(topic, key, once, tag);
            case "rescheduleJob": return job.rescheduleJobWithHttpInfo(id, body(step, Reschedule.class), once, tag);
            case "retryJob": return job.retryJobWithHttpInfo(id, once, body(step, Retry.class));
            case "findJobs":
                return jobs.findJobsWithHttpInfo(
                    topic, null, null, null, null, null, null, null, null, null, null, null, null);
            case "reserveJobs": return work.reserveJobsWithHttpInfo(body(step, Reserve.class), once);
            case "ackClaim": return work.ackClaimWithHttpInfo(receipt, once);
            case "nackClaim": return work.nackClaimWithHttpInfo(receipt, once, body(step, Nack.class));
            case "touchClaim": return work.touchClaimWithHttpInfo(receipt, once, body(step, Touch.class));
            case "releaseClaim": return work.releaseClaimWithHttpInfo(receipt, once);
            default: throw new IllegalArgumentException(step.get("call").asText());
        }
    }

    private static <T> T body(JsonNode step, Class<T> kind) throws Exception {
        return json.treeToValue(step.get("body"), kind);
    }

    private static String text(JsonNode step, String pointer) {
        return step.at(pointer).asText(null);
    }

    private static Iterable<Map.Entry<String, JsonNode>> fields(JsonNode step, String name) {
        Iterator<Map.Entry<String, JsonNode>> found = step.path(name).fields();
        return () -> found;
    }

    private static JsonNode filled(JsonNode step) throws Exception {
        String text = step.toString();
        for (Map.Entry<String, String> one : known.entrySet()) {
            String encoded = json.writeValueAsString(one.getValue());
            text = text.replace("{" + one.getKey() + "}", encoded.substring(1, encoded.length() - 1));
        }
        return new ObjectMapper().readTree(text);
    }

    private static void check(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }
}
