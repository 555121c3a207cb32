// A group member by Kafka's own Java client; what it hears and says is in tests/compat/group_member.py.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

public final class GroupMember implements ConsumerRebalanceListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", RangeAssignor.class.getName(),
        "cooperative-sticky", CooperativeStickyAssignor.class.getName());

    private final PrintStream events;
    private final JsonNode options;
    private final KafkaConsumer<String, String> consumer;
    private final Map<TopicPartition, OffsetAndMetadata> read = new HashMap<>();
    private final ConcurrentLinkedQueue<JsonNode> orders = new ConcurrentLinkedQueue<>();

    private GroupMember(JsonNode options, PrintStream events) {
        this.options = options;
        this.events = events;
        this.consumer = new KafkaConsumer<>(
            configs(options), new StringDeserializer(), new StringDeserializer());
    }

    public static void main(String[] arguments) throws Exception {
        // Whatever a library prints must not come between the events.
        PrintStream events = System.out;
        System.setOut(System.err);
        new GroupMember(JSON.readTree(arguments[0]), events).serve();
    }

    private static Map<String, Object> configs(JsonNode options) {
        boolean classic = options.get("protocol").asText().equals("classic");
        String assignor = options.get("assignor").asText();
        Map<String, Object> configs = new HashMap<>();
        configs.put("bootstrap.servers", options.get("bootstrap").asText());
        configs.put("group.id", options.get("group").asText());
        configs.put("group.protocol", options.get("protocol").asText());
        configs.put("auto.offset.reset", "earliest");
        configs.put("enable.auto.commit", options.get("commit").asText().equals("auto"));
        configs.put("auto.commit.interval.ms", 200);
        configs.put("fetch.max.wait.ms", 100);
        if (!options.get("instance_id").isNull()) {
            configs.put("group.instance.id", options.get("instance_id").asText());
        }
        if (classic) {
            configs.put("partition.assignment.strategy", ASSIGNORS.get(assignor));
            configs.put("session.timeout.ms", options.get("session_ms").asInt());
            configs.put("heartbeat.interval.ms", options.get("heartbeat_ms").asInt());
        } else {
            configs.put("group.remote.assignor", assignor);
        }
        return configs;
    }

    private void serve() throws InterruptedException {
        Thread reader = new Thread(this::readOrders);
        reader.setDaemon(true);
        reader.start();
        List<String> topics = new ArrayList<>();
        options.get("topics").forEach(topic -> topics.add(topic.asText()));
        consumer.subscribe(topics, this);
        tell("ready", NODES.objectNode());
        while (true) {
            for (JsonNode order = orders.poll(); order != null; order = orders.poll()) {
                if (order.get("op").asText().equals("leave")) {
                    tell("leaving", NODES.objectNode());
                    consumer.close();
                    tell("left", NODES.objectNode());
                    return;
                }
                // Work that takes its time, on the thread that polls, as users do it.
                tell("working", NODES.objectNode());
                Thread.sleep((long) (order.get("after_s").asDouble() * 1000));
                commit();
            }
            receive(consumer.poll(Duration.ofMillis(100)));
        }
    }

    private void receive(ConsumerRecords<String, String> records) {
        if (records.isEmpty()) {
            return;
        }
        ObjectNode event = NODES.objectNode();
        ArrayNode messages = event.putArray("messages");
        for (ConsumerRecord<String, String> record : records) {
            messages.addArray().add(record.topic()).add(record.partition())
                .add(record.offset()).add(record.value());
            read.put(new TopicPartition(record.topic(), record.partition()),
                new OffsetAndMetadata(record.offset() + 1));
        }
        tell("received", event);
        if (options.get("commit").asText().equals("after")) {
            commit();
        }
    }

    private void commit() {
        ObjectNode event = NODES.objectNode();
        try {
            ArrayNode offsets = event.putArray("offsets");
            read.forEach((place, at) ->
                offsets.addArray().add(place.topic()).add(place.partition()).add(at.offset()));
            consumer.commitSync(Map.copyOf(read));
        } catch (KafkaException error) {
            tell("refused", NODES.objectNode().put("error", error.getClass().getSimpleName()));
            return;
        }
        tell("committed", event);
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> places) {
        tell("assigned", partitions(places));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> places) {
        read.keySet().removeAll(places);
        tell("revoked", partitions(places));
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> places) {
        read.keySet().removeAll(places);
        tell("lost", partitions(places));
    }

    private static ObjectNode partitions(Collection<TopicPartition> places) {
        ObjectNode event = NODES.objectNode();
        ArrayNode rows = event.putArray("partitions");
        places.forEach(place -> rows.addArray().add(place.topic()).add(place.partition()));
        return event;
    }

    private void tell(String kind, ObjectNode event) {
        Instant now = Instant.now();
        event.put("event", kind).put("at", now.getEpochSecond() + now.getNano() / 1e9);
        events.println(event);
        events.flush();
    }

    private void readOrders() {
        try {
            BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                orders.add(JSON.readTree(line));
            }
        } catch (IOException error) {
            System.err.println(error);
        }
        orders.add(NODES.objectNode().put("op", "leave"));
    }
}
