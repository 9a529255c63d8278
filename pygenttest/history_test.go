package pygenttest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

type entries = []chat.HistoryEntry

// closable is a store that can be closed. Its functions change what passes
// through it.
type closable struct {
	chat.HistoryStore
	closed        bool
	stored, given func(entries) entries
	setSystem     func(s chat.HistoryStore, e chat.HistoryEntry) error
	silent        bool // a closed store returns no error
}

func (s *closable) check() error {
	if s.closed && !s.silent {
		return errors.New("the store is closed")
	}
	return nil
}

func (s *closable) Load(ctx context.Context) (entries, error) {
	all, err := s.HistoryStore.Load(ctx)
	if s.given != nil {
		all = s.given(all)
	}
	return all, err
}

func (s *closable) Append(ctx context.Context, e ...chat.HistoryEntry) error {
	if s.closed {
		return s.check()
	}
	if s.stored != nil {
		e = s.stored(slices.Clone(e))
	}
	return s.HistoryStore.Append(ctx, e...)
}

func (s *closable) SetSystem(ctx context.Context, e chat.HistoryEntry) error {
	switch {
	case s.closed:
		return s.check()
	case s.setSystem != nil:
		return s.setSystem(s.HistoryStore, e)
	}
	return s.HistoryStore.SetSystem(ctx, e)
}

func (s *closable) Close() error { s.closed = true; return nil }

// each returns a function that changes each entry.
func each(f func(e *chat.HistoryEntry)) func(entries) entries {
	return func(all entries) entries {
		for i := range all {
			f(&all[i])
		}
		return all
	}
}

var ctx = context.Background()

// wrongStores are stores that are wrong in one way each.
var wrongStores = map[string]closable{
	"reversed": {given: func(all entries) entries { slices.Reverse(all); return all }},
	"sorted as text": {given: func(all entries) entries {
		slices.SortStableFunc(all, func(a, b chat.HistoryEntry) int { return strings.Compare(fmt.Sprint(a.Seq), fmt.Sprint(b.Seq)) })
		return all
	}},
	"no marks": {stored: func(all entries) entries {
		return slices.DeleteFunc(all, func(e chat.HistoryEntry) bool { return e.Message.Role == "" })
	}},
	"no repetitions": {given: func(all entries) entries {
		return slices.CompactFunc(all, func(a, b chat.HistoryEntry) bool { return a.Message.Content == b.Message.Content })
	}},
	"no unknown field": {stored: each(func(e *chat.HistoryEntry) { e.Message.Extra = nil })},
	"no parts":         {stored: each(func(e *chat.HistoryEntry) { e.Message.Parts = nil })},
	"no calls":         {stored: each(func(e *chat.HistoryEntry) { e.Message.ToolCalls = nil })},
	"no source":        {stored: each(func(e *chat.HistoryEntry) { e.Source = "" })},
	"no outcome":       {stored: each(func(e *chat.HistoryEntry) { e.Outcome = "" })},
	"no usage":         {stored: each(func(e *chat.HistoryEntry) { e.Usage = pygent.Usage{} })},
	"whole seconds":    {stored: each(func(e *chat.HistoryEntry) { e.Time = e.Time.Truncate(time.Second) })},
	"short texts": {stored: each(func(e *chat.HistoryEntry) {
		e.Message.Content = e.Message.Content[:min(len(e.Message.Content), 1<<16)]
	})},
	"no NUL":          {stored: each(func(e *chat.HistoryEntry) { e.Message.Content = strings.ReplaceAll(e.Message.Content, "\x00", "") })},
	"trimmed":         {stored: each(func(e *chat.HistoryEntry) { e.Message.Content = strings.TrimSpace(e.Message.Content) })},
	"first only":      {stored: func(all entries) entries { return all[:1] }},
	"twice":           {stored: func(all entries) entries { return append(all, all...) }},
	"silent":          {silent: true},
	"system appended": {setSystem: func(s chat.HistoryStore, e chat.HistoryEntry) error { return s.Append(ctx, e) }},
	"system kept": {setSystem: func(s chat.HistoryStore, e chat.HistoryEntry) error {
		if e.Message.Role == "" {
			return nil
		}
		return s.SetSystem(ctx, e)
	}},
	"no system": {setSystem: func(chat.HistoryStore, chat.HistoryEntry) error { return nil }},
	"all system messages": {given: func(all entries) entries {
		return slices.DeleteFunc(all, func(e chat.HistoryEntry) bool { return e.Seq > 0 && e.Message.Role == chat.RoleSystem })
	}},
	"forgetful": {},
	"shared":    {},
}

// openWrong returns a function that opens stores that are wrong in one way, or
// right ones.
func openWrong(wrong string) func(string) (chat.HistoryStore, error) {
	conversations := map[string]*pygenttest.MemoryStore{}
	return func(name string) (chat.HistoryStore, error) {
		if wrong == "shared" {
			name = strings.TrimRight(name, "12")
		}
		if conversations[name] == nil || wrong == "forgetful" {
			conversations[name] = &pygenttest.MemoryStore{}
		}
		s := wrongStores[wrong]
		s.HistoryStore = conversations[name]
		return &s, nil
	}
}

func TestARightStorePasses(t *testing.T) {
	pygenttest.TestHistoryStore(t, openWrong(""))
}

const wrongEnv = "PYGENT_TEST_WRONG_STORES"
