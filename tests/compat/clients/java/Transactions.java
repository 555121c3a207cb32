// Kafka's own Java client in transactions, driven by JSON lines: see tests/compat/clients/txn_child.py.

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
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public final class Transactions {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    private String bootstrap;
    private KafkaProducer<String, String> producer;

    public static void main(String[] arguments) throws Exception {
        // Whatever a library prints must not come between the answers.
        PrintStream answers = System.out;
        System.setOut(System.err);
        BufferedReader requests =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Transactions driver = new Transactions();
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(JSON.writeValueAsString(driver.answer(JSON.readTree(line))));
            answers.flush();
        }
        // What is open stays open: a producer that is gone does not say goodbye.
        Runtime.getRuntime().halt(0);
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
        switch (request.get("op").asText()) {
            case "connect": bootstrap = request.get("bootstrap").asText(); break;
            case "open": open(request.get("id").asText(), request.get("timeout_ms").asInt()); break;
            case "begin": producer.beginTransaction(); break;
            case "send": send(request); break;
            case "offsets": offsets(request); break;
            case "commit": producer.commitTransaction(); break;
            case "abort": producer.abortTransaction(); break;
            case "read": return read(request);
            case "copy": copy(request); break;
            default: throw new IllegalArgumentException(request.toString());
        }
        return NODES.nullNode();
    }

    private void open(String id, int timeoutMs) {
        Map<String, Object> configs = new HashMap<>();
        configs.put("bootstrap.servers", bootstrap);
        configs.put("transactional.id", id);
        configs.put("transaction.timeout.ms", timeoutMs);
        producer = new KafkaProducer<>(configs, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
    }

    private void send(JsonNode request) throws Exception {
        List<Future<?>> sent = new ArrayList<>();
        for (JsonNode value : request.get("values")) {
            sent.add(producer.send(new ProducerRecord<>(
                request.get("topic").asText(), request.get("partition").asInt(), null, value.asText())));
        }
        for (Future<?> each : sent) {
            each.get();
        }
    }

    private void offsets(JsonNode request) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        request.get("offsets").properties().forEach(entry -> offsets.put(
            new TopicPartition(request.get("topic").asText(), Integer.parseInt(entry.getKey())),
            new OffsetAndMetadata(entry.getValue().asLong())));
        producer.sendOffsetsToTransaction(
            offsets, new ConsumerGroupMetadata(request.get("group").asText()));
    }

    private KafkaConsumer<String, String> consumer(String group, boolean committed, int batch) {
        Map<String, Object> configs = new HashMap<>();
        configs.put("bootstrap.servers", bootstrap);
        if (group != null) {
            configs.put("group.id", group);
        }
        configs.put("enable.auto.commit", false);
        configs.put("auto.offset.reset", "earliest");
        configs.put("isolation.level", committed ? "read_committed" : "read_uncommitted");
        configs.put("fetch.max.wait.ms", 100);
        configs.put("max.poll.records", batch);
        return new KafkaConsumer<>(configs, new StringDeserializer(), new StringDeserializer());
    }

    private ArrayNode read(JsonNode request) {
        TopicPartition where = new TopicPartition(
            request.get("topic").asText(), request.get("partition").asInt());
        String until = request.get("until").asText();
        long deadline = System.nanoTime() + request.get("wait_ms").asLong() * 1_000_000;
        boolean seen = false;
        ArrayNode values = NODES.arrayNode();
        try (KafkaConsumer<String, String> consumer =
                consumer(null, request.get("committed").asBoolean(), 500)) {
            consumer.assign(List.of(where));
            consumer.seekToBeginning(List.of(where));
            while (System.nanoTime() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    values.add(record.value());
                    if (record.value().equals(until)) {
                        seen = true;
                        deadline = System.nanoTime() + request.get("linger_ms").asLong() * 1_000_000;
                    }
                }
            }
        }
        if (!seen) {
            throw new IllegalStateException(until + " does not come, only " + values);
        }
        return values;
    }

    private void copy(JsonNode request) throws Exception {
        open(request.get("id").asText(), 60_000);
        int count = request.get("count").asInt();
        int abortEvery = request.get("abort_every").asInt();
        try (KafkaConsumer<String, String> consumer =
                consumer(request.get("group").asText(), true, request.get("batch").asInt())) {
            consumer.subscribe(List.of(request.get("source").asText()));
            int turn = 0;
            for (int done = 0; done < count;) {
                ConsumerRecords<String, String> found = consumer.poll(Duration.ofMillis(200));
                if (found.isEmpty()) {
                    continue;
                }
                copyBatch(request.get("target").asText(), consumer, found);
                turn += 1;
                if (turn % abortEvery == 0) {
                    producer.abortTransaction();
                    rewind(consumer);
                } else {
                    producer.commitTransaction();
                    done += found.count();
                }
            }
        }
    }

    private void copyBatch(
            String target, KafkaConsumer<String, String> consumer, ConsumerRecords<String, String> found) {
        producer.beginTransaction();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<String, String> record : found) {
            producer.send(new ProducerRecord<>(target, record.partition(), null, record.value() + "!"));
            offsets.put(new TopicPartition(record.topic(), record.partition()),
                new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
    }

    private static void rewind(KafkaConsumer<String, String> consumer) {
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
        for (TopicPartition where : consumer.assignment()) {
            OffsetAndMetadata offset = committed.get(where);
            consumer.seek(where, offset == null ? 0 : offset.offset());
        }
    }

    // Kafka's name of the first error in the chain of causes that has one.
    private static String nameOf(Throwable error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            Errors known = Errors.forException(cause);
            if (known != Errors.UNKNOWN_SERVER_ERROR) {
                return known.name();
            }
        }
        return error.getClass().getSimpleName();
    }
}
