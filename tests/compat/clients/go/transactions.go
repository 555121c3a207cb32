// Transactions by franz-go, driven by JSON lines: see tests/compat/clients/txn_child.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type txnRequest struct {
	Op         string   `json:"op"`
	Bootstrap  string   `json:"bootstrap"`
	ID         string   `json:"id"`
	TimeoutMs  int64    `json:"timeout_ms"`
	Topic      string   `json:"topic"`
	Partition  int32    `json:"partition"`
	Values     []string `json:"values"`
	Until      string   `json:"until"`
	Committed  bool     `json:"committed"`
	WaitMs     int64    `json:"wait_ms"`
	LingerMs   int64    `json:"linger_ms"`
	Source     string   `json:"source"`
	Target     string   `json:"target"`
	Group      string   `json:"group"`
	Count      int      `json:"count"`
	AbortEvery int      `json:"abort_every"`
	Batch      int      `json:"batch"`
}

type txnDriver struct {
	bootstrap string
	client    *kgo.Client
}

func serveTransactions() {
	requests := bufio.NewReaderSize(os.Stdin, 1<<20)
	answers := json.NewEncoder(os.Stdout)
	d := &txnDriver{}
	for {
		line, err := requests.ReadBytes('\n')
		if err != nil {
			return
		}
		var asked txnRequest
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

func (d *txnDriver) perform(r *txnRequest) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*wait)
	defer cancel()
	switch r.Op {
	case "connect":
		d.bootstrap = r.Bootstrap
		return nil, nil
	case "open":
		return nil, d.open(ctx, r)
	case "begin":
		return nil, d.client.BeginTransaction()
	case "send":
		return nil, d.send(ctx, r)
	case "commit":
		return nil, d.client.EndTransaction(ctx, kgo.TryCommit)
	case "abort":
		return nil, d.client.EndTransaction(ctx, kgo.TryAbort)
	case "read":
		return d.read(r)
	case "copy":
		return nil, d.copy(ctx, r)
	}
	return nil, errors.New("what is " + r.Op + "?")
}

func (d *txnDriver) producing(id string, timeoutMs int64) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(d.bootstrap),
		kgo.TransactionalID(id),
		kgo.TransactionTimeout(time.Duration(timeoutMs) * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RetryTimeout(wait),
	}
}

func (d *txnDriver) open(ctx context.Context, r *txnRequest) (err error) {
	if d.client, err = kgo.NewClient(d.producing(r.ID, r.TimeoutMs)...); err == nil {
		_, _, err = d.client.ProducerID(ctx)
	}
	return err
}

func (d *txnDriver) send(ctx context.Context, r *txnRequest) error {
	var records []*kgo.Record
	for _, value := range r.Values {
		records = append(records, &kgo.Record{Topic: r.Topic, Partition: r.Partition, Value: []byte(value)})
	}
	return d.client.ProduceSync(ctx, records...).FirstErr()
}

func (d *txnDriver) read(r *txnRequest) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.WaitMs)*time.Millisecond)
	defer cancel()
	level := kgo.ReadUncommitted()
	if r.Committed {
		level = kgo.ReadCommitted()
	}
	reader, err := kgo.NewClient(
		kgo.SeedBrokers(d.bootstrap),
		kgo.FetchIsolationLevel(level),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
			r.Topic: {r.Partition: kgo.NewOffset().AtStart()},
		}),
	)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	values := []string{}
	for !slices.Contains(values, r.Until) {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s does not come, only %v", r.Until, values)
		}
		values = append(values, poll(ctx, reader)...)
	}
	lingering, cancel := context.WithTimeout(ctx, time.Duration(r.LingerMs)*time.Millisecond)
	defer cancel()
	for lingering.Err() == nil {
		values = append(values, poll(lingering, reader)...)
	}
	return values, nil
}

func poll(ctx context.Context, reader *kgo.Client) (values []string) {
	for _, record := range reader.PollFetches(ctx).Records() {
		values = append(values, string(record.Value))
	}
	return values
}

func (d *txnDriver) copy(ctx context.Context, r *txnRequest) error {
	session, err := kgo.NewGroupTransactSession(append(d.producing(r.ID, 60_000),
		kgo.ConsumerGroup(r.Group),
		kgo.ConsumeTopics(r.Source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.RequireStableFetchOffsets(),
	)...)
	if err != nil {
		return err
	}
	defer session.Close()
	for done, turn := 0, 0; done < r.Count; {
		fetches := session.PollRecords(ctx, r.Batch)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if fetches.NumRecords() == 0 {
			continue
		}
		turn++
		if err = session.Begin(); err != nil {
			return err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			value := append(record.Value, '!')
			session.Produce(ctx, &kgo.Record{Topic: r.Target, Partition: record.Partition, Value: value}, nil)
		})
		committed, err := session.End(ctx, turn%r.AbortEvery != 0)
		if err != nil {
			return err
		}
		if committed {
			done += fetches.NumRecords()
		}
	}
	return nil
}
