// Kafka's own Java client, driven by JSON lines on the standard input: see child.py.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
    private String bootstrap;
    private int maxBytes;
    private Admin admin;

    public static void main(String[] arguments) throws Exception {
        // Whatever a library prints must not come between the answers.
        PrintStream answers = System.out;
        System.setOut(System.err);
        BufferedReader requests =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Driver driver = new Driver();
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(JSON.writeValueAsString(driver.answer(JSON.readTree(line))));
            answers.flush();
        }
        driver.close();
    }

    private ObjectNode answer(JsonNode request) {
        ObjectNode answer = NODES.objectNode();
        try {
            answer.set("ok", perform(request));
        } catch (Exception error) {
            answer.put("error", nameOf(error));
            answer.put("detail", String.valueOf(error));
        }
        return answer;
    }

    private JsonNode perform(JsonNode request) throws Exception {
        String topic = request.path("topic").asText();
        switch (request.get("op").asText()) {
            case "connect": return connect(request);
            case "produce": return produce(topic, request);
            case "consume": return consume(topic, request);
            case "create_topic": return createTopic(topic, request);
            case "delete_topic":
                return done(admin.deleteTopics(List.of(topic)).all().get());
            case "topics": return strings(admin.listTopics().names().get());
            case "partitions":
                return NODES.numberNode(admin.describeTopics(List.of(topic)).allTopicNames().get()
                    .get(topic).partitions().size());
            case "create_partitions":
                return done(admin.createPartitions(
                    Map.of(topic, NewPartitions.increaseTo(request.get("total").asInt()))).all().get());
            case "configs": return configs(topic);
            case "alter_config": return alterConfig(topic, request);
            case "offset": return NODES.numberNode(offset(topic, request));
            case "delete_records": return deleteRecords(topic, request);
            case "brokers": return brokers();
            case "log_dir_bytes": return logDirBytes(partitionOf(topic, request));
            case "producers": return producerStates(partitionOf(topic, request));
            case "config_resources": return configResources();
            default: throw new IllegalArgumentException("unknown op");
        }
    }

    private JsonNode connect(JsonNode request) {
        bootstrap = request.get("bootstrap").asText();
        maxBytes = request.get("max_bytes").asInt();
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
        return NODES.nullNode();
    }

    private JsonNode produce(String topic, JsonNode request) throws InterruptedException {
        KafkaProducer<byte[], byte[]> producer = producer(request);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode message : request.get("messages")) {
            List<Header> headers = new ArrayList<>();
            for (JsonNode header : message.get("headers")) {
                headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1))));
            }
            JsonNode stamp = message.get("timestamp");
            sent.add(producer.send(new ProducerRecord<>(
                topic, message.get("partition").asInt(), stamp.isNull() ? null : stamp.asLong(),
                bytes(message.get("key")), bytes(message.get("value")), headers)));
        }
        producer.flush();
        ArrayNode results = NODES.arrayNode();
        for (Future<RecordMetadata> one : sent) {
            ObjectNode row = results.addObject();
            try {
                row.put("partition", one.get().partition()).put("offset", one.get().offset());
            } catch (ExecutionException error) {
                row.put("error", nameOf(error));
            }
        }
        return results;
    }

    private KafkaProducer<byte[], byte[]> producer(JsonNode request) {
        String codec = request.get("codec").asText();
        String acks = request.get("acks").asText().replace("-1", "all");
        boolean idempotent = request.get("idempotent").asBoolean();
        return producers.computeIfAbsent(codec + acks + idempotent, key -> {
            Map<String, Object> configs = new HashMap<>();
            configs.put("bootstrap.servers", bootstrap);
            configs.put("compression.type", codec);
            configs.put("acks", acks);
            configs.put("enable.idempotence", idempotent);
            configs.put("max.request.size", maxBytes);
            configs.put("buffer.memory", 4L * maxBytes);
            configs.put("batch.size", 100_000);
            configs.put("linger.ms", 20);
            return new KafkaProducer<>(
                configs, new ByteArraySerializer(), new ByteArraySerializer());
        });
    }

    private JsonNode consume(String topic, JsonNode request) {
        Map<String, Object> configs = Map.of(
            "bootstrap.servers", bootstrap,
            "enable.auto.commit", false,
            "auto.offset.reset", "earliest",
            "fetch.max.wait.ms", request.get("fetch_wait_ms").asInt());
        TopicPartition where = partitionOf(topic, request);
        int count = request.get("count").asInt();
        long deadline = System.nanoTime() + request.get("wait_ms").asLong() * 1_000_000L;
        ArrayNode messages = NODES.arrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
                configs, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(where));
            seek(consumer, where, request.get("start"));
            while (messages.size() < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    if (messages.size() < count) {
                        messages.add(message(record));
                    }
                }
            }
        }
        return messages;
    }

    private void seek(KafkaConsumer<byte[], byte[]> consumer, TopicPartition where, JsonNode start) {
        if (start.has("offset")) {
            consumer.seek(where, start.get("offset").asLong());
        } else if (start.has("time")) {
            consumer.seek(where, consumer.offsetsForTimes(
                Map.of(where, start.get("time").asLong())).get(where).offset());
        } else if (start.get("spec").asText().equals("earliest")) {
            consumer.seekToBeginning(List.of(where));
        } else {
            consumer.seekToEnd(List.of(where));
        }
    }

    private JsonNode createTopic(String topic, JsonNode request) throws Exception {
        Map<String, String> configs = new HashMap<>();
        request.get("configs").properties().forEach(
            entry -> configs.put(entry.getKey(), entry.getValue().asText()));
        NewTopic made = new NewTopic(
            topic, Optional.of(request.get("partitions").asInt()), Optional.of((short) 1));
        return done(admin.createTopics(List.of(made.configs(configs))).all().get());
    }

    private JsonNode configs(String topic) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Config found = admin.describeConfigs(List.of(resource)).all().get().get(resource);
        ObjectNode values = NODES.objectNode();
        for (ConfigEntry entry : found.entries()) {
            values.put(entry.name(), entry.value());
        }
        return values;
    }

    private JsonNode alterConfig(String topic, JsonNode request) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        AlterConfigOp.OpType change =
            AlterConfigOp.OpType.valueOf(request.get("change").asText().toUpperCase());
        ConfigEntry entry =
            new ConfigEntry(request.get("key").asText(), request.get("value").asText());
        return done(admin.incrementalAlterConfigs(
            Map.of(resource, List.of(new AlterConfigOp(entry, change)))).all().get());
    }

    private long offset(String topic, JsonNode request) throws Exception {
        TopicPartition where = partitionOf(topic, request);
        JsonNode start = request.get("start");
        OffsetSpec spec;
        if (start.has("time")) {
            spec = OffsetSpec.forTimestamp(start.get("time").asLong());
        } else {
            switch (start.get("spec").asText()) {
                case "earliest": spec = OffsetSpec.earliest(); break;
                case "latest": spec = OffsetSpec.latest(); break;
                default: spec = OffsetSpec.maxTimestamp();
            }
        }
        return admin.listOffsets(Map.of(where, spec)).all().get().get(where).offset();
    }

    private JsonNode deleteRecords(String topic, JsonNode request) throws Exception {
        TopicPartition where = partitionOf(topic, request);
        RecordsToDelete before = RecordsToDelete.beforeOffset(request.get("before").asLong());
        return NODES.numberNode(admin.deleteRecords(Map.of(where, before)).lowWatermarks()
            .get(where).get().lowWatermark());
    }

    private JsonNode brokers() throws Exception {
        ArrayNode found = NODES.arrayNode();
        for (Node node : admin.describeCluster().nodes().get()) {
            found.add(node.host() + ":" + node.port());
        }
        return found;
    }

    private JsonNode logDirBytes(TopicPartition where) throws Exception {
        int broker = admin.describeCluster().nodes().get().iterator().next().id();
        return NODES.numberNode(admin.describeLogDirs(List.of(broker)).allDescriptions().get()
            .get(broker).values().iterator().next().replicaInfos().get(where).size());
    }

    private JsonNode producerStates(TopicPartition where) throws Exception {
        ArrayNode found = NODES.arrayNode();
        admin.describeProducers(List.of(where)).all().get().get(where).activeProducers()
            .forEach(producer -> found.add(producer.lastSequence()));
        return found;
    }

    private JsonNode configResources() throws Exception {
        ObjectNode found = NODES.objectNode();
        Set<ConfigResource.Type> types =
            Set.of(ConfigResource.Type.TOPIC, ConfigResource.Type.BROKER);
        for (ConfigResource resource :
                admin.listConfigResources(types, new org.apache.kafka.clients.admin
                    .ListConfigResourcesOptions()).all().get()) {
            found.withArray("/" + resource.type().name().toLowerCase()).add(resource.name());
        }
        return found;
    }

    private void close() {
        producers.values().forEach(KafkaProducer::close);
        admin.close();
    }

    private static ObjectNode message(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode message = NODES.objectNode();
        message.set("value", text(record.value()));
        message.set("key", text(record.key()));
        ArrayNode headers = message.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(text(header.value()));
        }
        return message.put("timestamp", record.timestamp()).put("partition", record.partition())
            .put("offset", record.offset());
    }

    private static TopicPartition partitionOf(String topic, JsonNode request) {
        return new TopicPartition(topic, request.get("partition").asInt());
    }

    private static JsonNode done(Void nothing) {
        return NODES.nullNode();
    }

    private static JsonNode strings(Set<String> values) {
        ArrayNode found = NODES.arrayNode();
        values.forEach(found::add);
        return found;
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    private static JsonNode text(byte[] bytes) {
        return bytes == null ? NODES.nullNode()
            : NODES.textNode(Base64.getEncoder().encodeToString(bytes));
    }

    private static String nameOf(Throwable error) {
        Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
        Errors known = Errors.forException(cause);
        return known == Errors.UNKNOWN_SERVER_ERROR ? cause.getClass().getSimpleName() : known.name();
    }
}
