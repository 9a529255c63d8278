package pygenttest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/x/pygent/chat"
)

// MemoryStore is a [chat.HistoryStore] in memory, whose calls can fail. It
// keeps the JSON of the entries, as a database would. Histories that load the
// same MemoryStore one after the other continue the same conversation. The zero
// value is an empty store. It is safe for concurrent use.
type MemoryStore struct {
	// Before and After are called before and after each call does its work, with
	// the name of the method. An error of theirs is the call's: after an error of
	// Before nothing has changed, after one of After all was stored nevertheless.
	// Set them before the store is used.
	Before, After func(ctx context.Context, method string) error

	mu      sync.Mutex
	entries [][]byte
}

var _ chat.HistoryStore = (*MemoryStore)(nil)

// Load returns what was stored.
func (s *MemoryStore) Load(ctx context.Context) (entries []chat.HistoryEntry, err error) {
	err = s.do(ctx, "Load", func() error {
		entries, err = decodeEntries(s.entries)
		return err
	})
	return entries, err
}

// Append stores entries.
func (s *MemoryStore) Append(ctx context.Context, entries ...chat.HistoryEntry) error {
	return s.do(ctx, "Append", func() error {
		for _, e := range entries {
			data, err := json.Marshal(e)
			if err != nil {
				return err
			}
			s.entries = append(s.entries, data)
		}
		return nil
	})
}

// SetSystem stores the system message.
func (s *MemoryStore) SetSystem(ctx context.Context, system chat.HistoryEntry) error {
	return s.do(ctx, "SetSystem", func() error {
		entries, err := decodeEntries(s.entries)
		if err != nil {
			return err
		}
		rest := s.entries
		if len(entries) > 0 && entries[0].Seq == 0 {
			rest = rest[1:]
		}
		if system.Message.Role == "" {
			s.entries = rest
			return nil
		}
		data, err := json.Marshal(system)
		s.entries = append([][]byte{data}, rest...)
		return err
	})
}

// Entries returns what was stored.
func (s *MemoryStore) Entries() []chat.HistoryEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, err := decodeEntries(s.entries)
	if err != nil {
		panic(err) // it is the JSON of entries
	}
	return entries
}

func (s *MemoryStore) do(ctx context.Context, method string, f func() error) error {
	if s.Before != nil {
		if err := s.Before(ctx, method); err != nil {
			return err
		}
	}
	s.mu.Lock()
	err := f()
	s.mu.Unlock()
	if err == nil && s.After != nil {
		err = s.After(ctx, method)
	}
	return err
}

func decodeEntries(stored [][]byte) ([]chat.HistoryEntry, error) {
	entries := make([]chat.HistoryEntry, len(stored))
	for i, data := range stored {
		if err := json.Unmarshal(data, &entries[i]); err != nil {
			return nil, fmt.Errorf("entry %d: %w", i+1, err)
		}
	}
	return entries, nil
}
