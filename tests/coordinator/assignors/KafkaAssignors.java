// Asks Kafka's own assignors. Reads one group a line, writes one assignment a line:
//
//   assignor|homogeneous or heterogeneous|topic=count,...|member;instance;topic,...;topic:0.1.2,...|...
//   member;topic:0.1.2,...|...
//
// Everything is handed over in sorted collections, so that no answer depends on hash order.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

public class KafkaAssignors {
    record Topics(Map<Uuid, Integer> counts) implements SubscribedTopicDescriber {
        public int numPartitions(Uuid topic) {
            return counts.getOrDefault(topic, -1);
        }

        public Set<String> racksForPartition(Uuid topic, int partition) {
            return Set.of();
        }
    }

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(answer(line.split("\\|")));
        }
    }

    static String answer(String[] fields) {
        PartitionAssignor assignor =
            fields[0].equals("range") ? new RangeAssignor() : new UniformAssignor();
        SubscriptionType type = SubscriptionType.valueOf(fields[1].toUpperCase());
        Map<Uuid, Integer> counts = new HashMap<>();
        for (String topic : list(fields[2], ",")) {
            String[] nameAndCount = topic.split("=");
            counts.put(id(nameAndCount[0]), Integer.parseInt(nameAndCount[1]));
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new TreeMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (int i = 3; i < fields.length; i++) {
            String[] member = fields[i].split(";", -1);
            Map<Uuid, Set<Integer>> assigned = partitions(member[3]);
            assigned.forEach((topic, numbers) -> numbers.forEach(
                n -> owners.computeIfAbsent(topic, t -> new HashMap<>()).put(n, member[0])));
            Set<Uuid> topics = new TreeSet<>();
            list(member[2], ",").forEach(topic -> topics.add(id(topic)));
            members.put(member[0], new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(),
                member[1].isEmpty() ? Optional.empty() : Optional.of(member[1]),
                topics,
                new Assignment(assigned)));
        }
        Map<String, MemberAssignment> answers = assignor
            .assign(new GroupSpecImpl(members, type, owners), new Topics(counts)).members();
        List<String> out = new ArrayList<>();
        new TreeMap<>(answers).forEach((name, given) -> out.add(name + ";" + text(given)));
        return String.join("|", out);
    }

    static Map<Uuid, Set<Integer>> partitions(String text) {
        Map<Uuid, Set<Integer>> result = new TreeMap<>();
        for (String entry : list(text, ",")) {
            String[] topicAndNumbers = entry.split(":");
            Set<Integer> numbers = new TreeSet<>();
            list(topicAndNumbers[1], "\\.").forEach(n -> numbers.add(Integer.parseInt(n)));
            result.put(id(topicAndNumbers[0]), numbers);
        }
        return result;
    }

    static String text(MemberAssignment assignment) {
        List<String> entries = new ArrayList<>();
        new TreeMap<>(assignment.partitions()).forEach((topic, numbers) -> {
            List<String> sorted = new ArrayList<>();
            new TreeSet<>(numbers).forEach(n -> sorted.add(n.toString()));
            entries.add(hex(topic) + ":" + String.join(".", sorted));
        });
        return String.join(",", entries);
    }

    static List<String> list(String text, String separator) {
        return text.isEmpty() ? List.of() : List.of(text.split(separator));
    }

    static Uuid id(String hex) {
        return new Uuid(Long.parseUnsignedLong(hex.substring(0, 16), 16),
            Long.parseUnsignedLong(hex.substring(16), 16));
    }

    static String hex(Uuid id) {
        return String.format(
            "%016x%016x", id.getMostSignificantBits(), id.getLeastSignificantBits());
    }
}
