import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.generated.KillOptions;
import org.apache.storm.kafka.bolt.KafkaBolt;
import org.apache.storm.kafka.bolt.mapper.FieldNameBasedTupleToKafkaMapper;
import org.apache.storm.kafka.spout.FirstPollOffsetStrategy;
import org.apache.storm.kafka.spout.KafkaSpout;
import org.apache.storm.kafka.spout.KafkaSpoutConfig;
import org.apache.storm.topology.BasicOutputCollector;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseBasicBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/**
 * A topic, its values in capitals, another topic: spout, bolt, bolt, in Storm's cluster in one process.
 *
 * <p>Arguments: bootstrap servers, input topic, output topic, group. It prints "running" once the
 * topology is submitted, and runs until its standard input is closed.
 */
public final class Topology {
  private static final String NAME = "capitals";
  private static final int COMMIT_MS = 500;

  public static void main(String[] arguments) throws Exception {
    String servers = arguments[0];
    TopologyBuilder builder = new TopologyBuilder();
    builder.setSpout("read", spout(servers, arguments[1], arguments[3]), 1);
    builder.setBolt("transform", new Capitals(), 2).shuffleGrouping("read");
    builder.setBolt("write", bolt(servers, arguments[2]), 1).shuffleGrouping("transform");
    Config config = new Config();
    config.setNumWorkers(1);
    // What a broker that dies swallowed is emitted again after this time.
    config.setMessageTimeoutSecs(10);
    config.setMaxSpoutPending(500);
    try (LocalCluster cluster = new LocalCluster()) {
      cluster.submitTopology(NAME, config, builder.createTopology());
      System.out.println("running");
      while (System.in.read() >= 0) {
        // Until whoever started this has seen enough.
      }
      KillOptions now = new KillOptions();
      now.set_wait_secs(0);
      cluster.killTopologyWithOpts(NAME, now);
    }
    System.exit(0); // Storm leaves threads behind that would keep the process.
  }

  private static KafkaSpout<String, String> spout(String servers, String topic, String group) {
    return new KafkaSpout<>(
        KafkaSpoutConfig.builder(servers, topic)
            .setProp(ConsumerConfig.GROUP_ID_CONFIG, group)
            .setFirstPollOffsetStrategy(FirstPollOffsetStrategy.UNCOMMITTED_EARLIEST)
            .setProcessingGuarantee(KafkaSpoutConfig.ProcessingGuarantee.AT_LEAST_ONCE)
            .setOffsetCommitPeriodMs(COMMIT_MS)
            .build());
  }

  private static KafkaBolt<String, String> bolt(String servers, String topic) {
    Properties properties = new Properties();
    properties.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
    properties.put(ProducerConfig.ACKS_CONFIG, "all");
    properties.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, StringSerializer.class.getName());
    properties.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, StringSerializer.class.getName());
    return new KafkaBolt<String, String>()
        .withProducerProperties(properties)
        .withTopicSelector(topic)
        .withTupleToKafkaMapper(new FieldNameBasedTupleToKafkaMapper<>("key", "value"));
  }

  /** The value in capitals, under its key; acknowledged by Storm when the next bolt has it written. */
  private static final class Capitals extends BaseBasicBolt {
    @Override
    public void execute(Tuple tuple, BasicOutputCollector out) {
      out.emit(new Values(tuple.getStringByField("key"), tuple.getStringByField("value").toUpperCase()));
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
      declarer.declare(new Fields("key", "value"));
    }
  }
}
