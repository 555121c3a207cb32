import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Writes or reads numbers until stdin ends: `Numbers write|read SERVERS TOPIC PARTITIONS`.
 * A line for each record: `NUMBER PARTITION OFFSET`, or `! WHAT WENT WRONG`.
 */
public class Numbers {
    private static synchronized void tell(String line) {
        System.out.println(line);
        System.out.flush();
    }

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[1]);
        int partitions = Integer.parseInt(arguments[3]);
        if (arguments[0].equals("write")) {
            write(settings, arguments[2], partitions);
        } else {
            read(settings, arguments[2], partitions);
        }
    }

    private static boolean goesOn() throws Exception {
        return System.in.available() == 0;
    }

    private static void write(Properties settings, String topic, int partitions) throws Exception {
        settings.put("acks", "all");
        settings.put("enable.idempotence", "true");
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        int sent = 0;
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            while (goesOn()) {
                int number = sent++;
                producer.send(
                    new ProducerRecord<>(topic, number % partitions, null, "" + number),
                    (made, problem) -> tell(problem != null
                        ? "! " + problem
                        : number + " " + made.partition() + " " + made.offset()));
                Thread.sleep(4);
            }
            producer.flush();
        }
        tell("sent " + sent);
    }

    private static void read(Properties settings, String topic, int partitions) throws Exception {
        settings.put("enable.auto.commit", "false");
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            List<TopicPartition> places = new ArrayList<>();
            for (int number = 0; number < partitions; number++) {
                places.add(new TopicPartition(topic, number));
            }
            consumer.assign(places);
            consumer.seekToBeginning(places);
            while (goesOn()) {
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(100))) {
                    tell(each.value() + " " + each.partition() + " " + each.offset());
                }
            }
        } catch (RuntimeException problem) {
            tell("! " + problem);
        }
    }
}
