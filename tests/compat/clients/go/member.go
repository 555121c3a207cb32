// A group member by franz-go; what it hears and says is in tests/compat/group_member.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type membership struct {
	Bootstrap   string   `json:"bootstrap"`
	Group       string   `json:"group"`
	Topics      []string `json:"topics"`
	Protocol    string   `json:"protocol"`
	Assignor    string   `json:"assignor"`
	InstanceID  *string  `json:"instance_id"`
	SessionMs   int64    `json:"session_ms"`
	HeartbeatMs int64    `json:"heartbeat_ms"`
	Commit      string   `json:"commit"`
}

type order struct {
	Op     string  `json:"op"`
	AfterS float64 `json:"after_s"`
}

type place struct {
	topic     string
	partition int32
}

// Rebalances are reported from the client's own goroutines.
type member struct {
	wanted membership
	client *kgo.Client
	mutex  sync.Mutex
	read   map[place]int64
	events *json.Encoder
}

func beMember(argument string) error {
	m := &member{read: map[place]int64{}, events: json.NewEncoder(os.Stdout)}
	err := json.Unmarshal([]byte(argument), &m.wanted)
	if err == nil {
		m.client, err = kgo.NewClient(m.options()...)
	}
	if err != nil {
		return err
	}
	m.tell("ready", nil)
	orders := make(chan order)
	go readOrders(orders)
	for {
		select {
		case told := <-orders:
			if told.Op == "leave" {
				m.leave()
				return nil
			}
			// Work that takes its time, on the goroutine that polls, as users do it.
			m.tell("working", nil)
			time.Sleep(time.Duration(told.AfterS * float64(time.Second)))
			m.commit()
		default:
			m.receive()
		}
		m.client.AllowRebalance()
	}
}

func (m *member) options() []kgo.Opt {
	options := []kgo.Opt{
		kgo.SeedBrokers(m.wanted.Bootstrap),
		kgo.ConsumerGroup(m.wanted.Group),
		kgo.ConsumeTopics(m.wanted.Topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(time.Duration(m.wanted.SessionMs) * time.Millisecond),
		kgo.HeartbeatInterval(time.Duration(m.wanted.HeartbeatMs) * time.Millisecond),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, given map[string][]int32) {
			m.tell("assigned", given)
		}),
		kgo.OnPartitionsRevoked(m.takenAway("revoked")),
		kgo.OnPartitionsLost(m.takenAway("lost")),
		kgo.BlockRebalanceOnPoll(),
	}
	if m.wanted.InstanceID != nil {
		options = append(options, kgo.InstanceID(*m.wanted.InstanceID))
	}
	if m.wanted.Commit == "auto" {
		options = append(options, kgo.AutoCommitInterval(200*time.Millisecond))
	} else {
		options = append(options, kgo.DisableAutoCommit())
	}
	balancer := kgo.RangeBalancer()
	if m.wanted.Assignor == "cooperative-sticky" {
		balancer = kgo.CooperativeStickyBalancer()
	}
	if m.wanted.Protocol == "consumer" {
		return append(options, kgo.ServerSideBalancer())
	}
	return append(options, kgo.Balancers(balancer))
}

func (m *member) takenAway(event string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(ctx context.Context, _ *kgo.Client, taken map[string][]int32) {
		m.mutex.Lock()
		for topic, partitions := range taken {
			for _, partition := range partitions {
				delete(m.read, place{topic, partition})
			}
		}
		m.mutex.Unlock()
		m.tell(event, taken)
	}
}

func (m *member) receive() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	records := m.client.PollRecords(ctx, 100).Records()
	if len(records) == 0 {
		return
	}
	messages := [][]any{}
	m.mutex.Lock()
	for _, record := range records {
		messages = append(messages, []any{record.Topic, record.Partition, record.Offset, string(record.Value)})
		m.read[place{record.Topic, record.Partition}] = record.Offset + 1
	}
	m.mutex.Unlock()
	m.say(map[string]any{"event": "received", "messages": messages})
	if m.wanted.Commit == "after" {
		m.commit()
	}
}

func (m *member) commit() {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	rows := [][]any{}
	m.mutex.Lock()
	for where, next := range m.read {
		if offsets[where.topic] == nil {
			offsets[where.topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[where.topic][where.partition] = kgo.EpochOffset{Epoch: -1, Offset: next}
		rows = append(rows, []any{where.topic, where.partition, next})
	}
	m.mutex.Unlock()
	var refused error
	m.client.CommitOffsetsSync(context.Background(), offsets,
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
			refused = err
			if answer == nil {
				return
			}
			for _, topic := range answer.Topics {
				for _, partition := range topic.Partitions {
					refused = errors.Join(refused, kerr.ErrorForCode(partition.ErrorCode))
				}
			}
		})
	if refused != nil {
		m.say(map[string]any{"event": "refused", "error": refused.Error()})
	} else {
		m.say(map[string]any{"event": "committed", "offsets": rows})
	}
}

func (m *member) leave() {
	m.tell("leaving", nil)
	if m.wanted.Commit == "auto" {
		m.client.CommitUncommittedOffsets(context.Background())
	}
	m.client.CloseAllowingRebalance()
	m.tell("left", nil)
}

func (m *member) tell(event string, partitions map[string][]int32) {
	rows := [][]any{}
	for topic, numbers := range partitions {
		for _, number := range numbers {
			rows = append(rows, []any{topic, number})
		}
	}
	m.say(map[string]any{"event": event, "partitions": rows})
}

func (m *member) say(event map[string]any) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	event["at"] = float64(time.Now().UnixMicro()) / 1e6
	m.events.Encode(event)
}

func readOrders(orders chan<- order) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var told order
		if json.Unmarshal(lines.Bytes(), &told) == nil {
			orders <- told
		}
	}
	orders <- order{Op: "leave"}
}
