// franz-go, driven by JSON lines on the standard input: see child.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const wait = 30 * time.Second

type start struct {
	Offset *int64 `json:"offset"`
	Time   *int64 `json:"time"`
	Spec   string `json:"spec"`
}

// A message as it travels; encoding/json makes base64 of bytes and null of nil.
type message struct {
	Value     []byte  `json:"value"`
	Key       []byte  `json:"key"`
	Headers   [][]any `json:"headers"`
	Timestamp *int64  `json:"timestamp"`
	Partition int32   `json:"partition"`
	Offset    int64   `json:"offset"`
}

type request struct {
	Op         string            `json:"op"`
	Bootstrap  string            `json:"bootstrap"`
	MaxBytes   int32             `json:"max_bytes"`
	Topic      string            `json:"topic"`
	Partition  int32             `json:"partition"`
	Partitions int32             `json:"partitions"`
	Total      int               `json:"total"`
	Configs    map[string]string `json:"configs"`
	Codec      string            `json:"codec"`
	Acks       int               `json:"acks"`
	Idempotent bool              `json:"idempotent"`
	Messages   []message         `json:"messages"`
	Count      int               `json:"count"`
	Start      start             `json:"start"`
	WaitMs     int64             `json:"wait_ms"`
	FetchWait  int64             `json:"fetch_wait_ms"`
	Key        string            `json:"key"`
	Value      string            `json:"value"`
	Change     string            `json:"change"`
	Before     int64             `json:"before"`
}

type delivery struct {
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Error     string `json:"error,omitempty"`
}

type driver struct {
	bootstrap string
	maxBytes  int32
	client    *kgo.Client
	admin     *kadm.Client
	producers map[string]*kgo.Client
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "transactions" {
		serveTransactions()
		return
	}
	if len(os.Args) > 1 {
		if err := beMember(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	requests := bufio.NewReaderSize(os.Stdin, 1<<20)
	answers := json.NewEncoder(os.Stdout)
	d := &driver{producers: map[string]*kgo.Client{}}
	for {
		line, err := requests.ReadBytes('\n')
		if err != nil {
			return
		}
		var asked request
		var result any
		if err = json.Unmarshal(line, &asked); err == nil {
			result, err = d.perform(&asked)
		}
		if err != nil {
			answers.Encode(map[string]string{"error": nameOf(err), "detail": err.Error()})
		} else {
			answers.Encode(map[string]any{"ok": result})
		}
	}
}

func (d *driver) perform(r *request) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	switch r.Op {
	case "connect":
		return nil, d.connect(r)
	case "produce":
		return d.produce(r)
	case "consume":
		return d.consume(r)
	case "create_topic":
		return nil, d.createTopic(ctx, r)
	case "delete_topic":
		_, err := d.admin.DeleteTopic(ctx, r.Topic)
		return nil, err
	case "topics":
		found, err := d.admin.ListTopics(ctx)
		return found.Names(), err
	case "partitions":
		return d.partitions(ctx, r)
	case "create_partitions":
		found, err := d.admin.UpdatePartitions(ctx, r.Total, r.Topic)
		if err == nil {
			err = found.Error()
		}
		return nil, err
	case "configs":
		return d.configs(ctx, r)
	case "alter_config":
		return nil, d.alterConfig(ctx, r)
	case "offset":
		return d.offset(ctx, r)
	case "delete_records":
		return d.deleteRecords(ctx, r)
	case "brokers":
		return d.brokers(ctx)
	case "log_dir_bytes":
		return d.logDirBytes(ctx, r)
	case "producers":
		return d.producerStates(ctx, r)
	case "config_resources":
		return d.configResources(ctx)
	}
	return nil, fmt.Errorf("unknown op %q", r.Op)
}

func (d *driver) connect(r *request) (err error) {
	d.bootstrap, d.maxBytes = r.Bootstrap, r.MaxBytes
	if d.client, err = kgo.NewClient(kgo.SeedBrokers(r.Bootstrap)); err == nil {
		d.admin = kadm.NewClient(d.client)
	}
	return err
}

func (d *driver) producer(r *request) (*kgo.Client, error) {
	name := fmt.Sprint(r.Codec, r.Acks, r.Idempotent)
	if known := d.producers[name]; known != nil {
		return known, nil
	}
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	acks := map[int]kgo.Acks{-1: kgo.AllISRAcks(), 0: kgo.NoAck(), 1: kgo.LeaderAck()}
	options := []kgo.Opt{
		kgo.SeedBrokers(d.bootstrap),
		kgo.ProducerBatchCompression(codecs[r.Codec]),
		kgo.RequiredAcks(acks[r.Acks]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(d.maxBytes),
		kgo.ProducerLinger(20 * time.Millisecond),
		kgo.AllowAutoTopicCreation(),
	}
	if !r.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	made, err := kgo.NewClient(options...)
	if err == nil {
		d.producers[name] = made
	}
	return made, err
}

func (d *driver) produce(r *request) (any, error) {
	producer, err := d.producer(r)
	if err != nil {
		return nil, err
	}
	records := make([]*kgo.Record, 0, len(r.Messages))
	for _, one := range r.Messages {
		record := &kgo.Record{Topic: r.Topic, Partition: one.Partition, Key: one.Key, Value: one.Value}
		if one.Timestamp != nil {
			record.Timestamp = time.UnixMilli(*one.Timestamp)
		}
		for _, header := range one.Headers {
			value, err := headerValue(header[1])
			if err != nil {
				return nil, err
			}
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: header[0].(string), Value: value})
		}
		records = append(records, record)
	}
	// Not RecordDeliveryTimeout: it counts from the record's own timestamp, which may be long ago.
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	results := make([]delivery, len(records))
	for n, sent := range producer.ProduceSync(ctx, records...) {
		if sent.Err != nil {
			results[n] = delivery{Error: nameOf(sent.Err)}
		} else {
			results[n] = delivery{Partition: sent.Record.Partition, Offset: sent.Record.Offset}
		}
	}
	return results, nil
}

func headerValue(text any) (value []byte, err error) {
	if text == nil {
		return nil, nil
	}
	quoted, err := json.Marshal(text)
	if err == nil {
		err = json.Unmarshal(quoted, &value)
	}
	return value, err
}

func (d *driver) consume(r *request) (any, error) {
	offset := kgo.NewOffset()
	switch {
	case r.Start.Offset != nil:
		offset = offset.At(*r.Start.Offset)
	case r.Start.Time != nil:
		offset = offset.AfterMilli(*r.Start.Time)
	case r.Start.Spec == "earliest":
		offset = offset.AtStart()
	default:
		offset = offset.AtEnd()
	}
	consumer, err := kgo.NewClient(
		kgo.SeedBrokers(d.bootstrap),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.Topic: {r.Partition: offset}}),
		kgo.FetchMaxWait(time.Duration(r.FetchWait)*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.WaitMs)*time.Millisecond)
	defer cancel()
	got := []message{}
	for len(got) < r.Count && ctx.Err() == nil {
		for _, record := range consumer.PollRecords(ctx, r.Count-len(got)).Records() {
			got = append(got, toMessage(record))
		}
	}
	return got, nil
}

func toMessage(record *kgo.Record) message {
	stamp := record.Timestamp.UnixMilli()
	headers := [][]any{}
	for _, header := range record.Headers {
		headers = append(headers, []any{header.Key, header.Value})
	}
	return message{record.Value, record.Key, headers, &stamp, record.Partition, record.Offset}
}

func (d *driver) createTopic(ctx context.Context, r *request) error {
	configs := map[string]*string{}
	for key, value := range r.Configs {
		configs[key] = &value
	}
	_, err := d.admin.CreateTopic(ctx, r.Partitions, 1, configs, r.Topic)
	return err
}

func (d *driver) partitions(ctx context.Context, r *request) (any, error) {
	found, err := d.admin.ListTopics(ctx, r.Topic)
	if err != nil {
		return nil, err
	}
	topic := found[r.Topic]
	return len(topic.Partitions), topic.Err
}

func (d *driver) configs(ctx context.Context, r *request) (any, error) {
	found, err := d.admin.DescribeTopicConfigs(ctx, r.Topic)
	if err != nil {
		return nil, err
	}
	values := map[string]*string{}
	for _, config := range found[0].Configs {
		values[config.Key] = config.Value
	}
	return values, found[0].Err
}

func (d *driver) alterConfig(ctx context.Context, r *request) error {
	changes := map[string]kadm.IncrementalOp{
		"set": kadm.SetConfig, "delete": kadm.DeleteConfig,
		"append": kadm.AppendConfig, "subtract": kadm.SubtractConfig,
	}
	change := kadm.AlterConfig{Op: changes[r.Change], Name: r.Key, Value: &r.Value}
	found, err := d.admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{change}, r.Topic)
	if err != nil {
		return err
	}
	return found[0].Err
}

func (d *driver) offset(ctx context.Context, r *request) (any, error) {
	var found kadm.ListedOffsets
	var err error
	switch {
	case r.Start.Time != nil:
		return d.offsetAfter(ctx, r)
	case r.Start.Spec == "earliest":
		found, err = d.admin.ListStartOffsets(ctx, r.Topic)
	case r.Start.Spec == "latest":
		found, err = d.admin.ListEndOffsets(ctx, r.Topic)
	default:
		found, err = d.admin.ListMaxTimestampOffsets(ctx, r.Topic)
	}
	if err != nil {
		return nil, err
	}
	offset, _ := found.Lookup(r.Topic, r.Partition)
	return offset.Offset, offset.Err
}

// kadm turns "no record that young" into the end offset, so this asks by hand.
func (d *driver) offsetAfter(ctx context.Context, r *request) (any, error) {
	asked := kmsg.NewPtrListOffsetsRequest()
	asked.ReplicaID = -1
	partition := kmsg.NewListOffsetsRequestTopicPartition()
	partition.Partition, partition.Timestamp = r.Partition, *r.Start.Time
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = r.Topic
	topic.Partitions = append(topic.Partitions, partition)
	asked.Topics = append(asked.Topics, topic)
	answer, err := asked.RequestWith(ctx, d.client)
	if err != nil {
		return nil, err
	}
	found := answer.Topics[0].Partitions[0]
	return found.Offset, kerr.ErrorForCode(found.ErrorCode)
}

func (d *driver) deleteRecords(ctx context.Context, r *request) (any, error) {
	before := kadm.Offsets{}
	before.AddOffset(r.Topic, r.Partition, r.Before, -1)
	answers, err := d.admin.DeleteRecords(ctx, before)
	if err != nil {
		return nil, err
	}
	found, _ := answers.Lookup(r.Topic, r.Partition)
	return found.LowWatermark, found.Err
}

func (d *driver) brokers(ctx context.Context) (any, error) {
	found, err := d.admin.ListBrokers(ctx)
	addresses := []string{}
	for _, broker := range found {
		addresses = append(addresses, fmt.Sprintf("%s:%d", broker.Host, broker.Port))
	}
	return addresses, err
}

func (d *driver) logDirBytes(ctx context.Context, r *request) (any, error) {
	asked := kadm.TopicsSet{}
	asked.Add(r.Topic, r.Partition)
	found, err := d.admin.DescribeAllLogDirs(ctx, asked)
	if err != nil {
		return nil, err
	}
	var size int64
	found.Each(func(directory kadm.DescribedLogDir) { size += directory.Size() })
	return size, nil
}

func (d *driver) producerStates(ctx context.Context, r *request) (any, error) {
	asked := kadm.TopicsSet{}
	asked.Add(r.Topic, r.Partition)
	found, err := d.admin.DescribeProducers(ctx, asked)
	if err != nil {
		return nil, err
	}
	sequences := []int32{}
	for _, producer := range found.SortedProducers() {
		sequences = append(sequences, producer.LastSequence)
	}
	return sequences, nil
}

func (d *driver) configResources(ctx context.Context) (any, error) {
	asked := kmsg.NewPtrListConfigResourcesRequest()
	asked.ResourceTypes = []int8{int8(kmsg.ConfigResourceTypeTopic), int8(kmsg.ConfigResourceTypeBroker)}
	answer, err := asked.RequestWith(ctx, d.client)
	if err != nil {
		return nil, err
	}
	found := map[string][]string{}
	for _, resource := range answer.ConfigResources {
		kind := "topic"
		if kmsg.ConfigResourceType(resource.Type) == kmsg.ConfigResourceTypeBroker {
			kind = "broker"
		}
		found[kind] = append(found[kind], resource.Name)
	}
	return found, kerr.ErrorForCode(answer.ErrorCode)
}

func nameOf(err error) string {
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Message
	}
	return err.Error()
}
