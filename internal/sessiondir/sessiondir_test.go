package sessiondir_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/x/pygent/internal/sessiondir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// begin makes a session that was used some days before now, and closes it.
func begin(t *testing.T, dir, id, info string, days int) {
	t.Helper()
	s, err := sessiondir.Open(filepath.Join(dir, id))
	require.NoError(t, err)
	require.NoError(t, s.WriteInfo([]byte(info)))
	require.NoError(t, s.Close())
	used := time.Now().AddDate(0, 0, -days)
	require.NoError(t, os.Chtimes(filepath.Join(dir, id, sessiondir.InfoFile), used, used))
}

func ids(t *testing.T, dir string) (ids []string) {
	t.Helper()
	list, err := sessiondir.List(dir)
	require.NoError(t, err)
	for _, e := range list {
		ids = append(ids, e.ID)
	}
	return ids
}

func TestASessionIsOpenOnce(t *testing.T) {
	at := filepath.Join(t.TempDir(), "sessions", "1a")
	s, err := sessiondir.Open(at)
	require.NoError(t, err)
	_, err = s.Info()
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, s.WriteInfo([]byte("one")))
	require.NoError(t, s.WriteInfo([]byte("two")))
	_, err = sessiondir.Open(at)
	require.ErrorIs(t, err, sessiondir.ErrInUse)
	require.ErrorIs(t, sessiondir.Remove(filepath.Dir(at), "1a"), sessiondir.ErrInUse)
	list, err := sessiondir.List(filepath.Dir(at))
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.True(t, list[0].Open)
	require.NoError(t, s.Close())

	s, err = sessiondir.Open(at)
	require.NoError(t, err)
	info, err := s.Info()
	require.NoError(t, err)
	require.Equal(t, "two", string(info))
	require.NoError(t, s.Remove())
	require.NoDirExists(t, at)
}

func TestOnlyNamesOfSessionsAreTouched(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside")
	require.NoError(t, os.WriteFile(outside, nil, 0o600))
	sessions := filepath.Join(dir, "sessions")
	begin(t, sessions, "1a", "{}", 0)
	for _, id := range []string{"", ".", "..", "../outside", "a/b", "-x", strings.Repeat("a", 65), "ä", "a\x00"} {
		require.False(t, sessiondir.IsID(id), "%q", id)
		require.ErrorIs(t, sessiondir.Remove(sessions, id), fs.ErrNotExist, "%q", id)
	}
	_, err := sessiondir.Open(filepath.Join(sessions, "no session"))
	require.ErrorContains(t, err, "cannot be the name of a session")
	require.ErrorIs(t, sessiondir.Remove(sessions, "2b"), fs.ErrNotExist)
	require.NoDirExists(t, filepath.Join(sessions, "2b"))
	require.Equal(t, []string{"1a"}, ids(t, sessions))
	require.FileExists(t, outside)
}

func TestListTellsWhatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	begin(t, dir, "1old", "{}", 3)
	begin(t, dir, "2new", "{}", 1)
	for id, spoil := range map[string]func(info string) error{
		"3huge": func(info string) error { return os.Truncate(info, sessiondir.MaxInfo+1) },
		"4link": func(info string) error { return errors.Join(os.Remove(info), os.Symlink("/etc/passwd", info)) },
		"5dir":  func(info string) error { return errors.Join(os.Remove(info), os.Mkdir(info, 0o700)) },
		"6lost": func(info string) error {
			return errors.Join(os.Remove(info), os.WriteFile(filepath.Join(filepath.Dir(info), sessiondir.HistoryFile), []byte(`[{"role":"user"}]`), 0o600))
		},
		"7none": os.Remove,
	} {
		begin(t, dir, id, "{}", 2)
		require.NoError(t, spoil(filepath.Join(dir, id, sessiondir.InfoFile)))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "8file"), nil, 0o600))
	list, err := sessiondir.List(dir)
	require.NoError(t, err)
	found := map[string]bool{}
	for _, e := range list {
		found[e.ID] = e.Err == nil
		require.False(t, e.Open)
		require.False(t, e.Used.IsZero())
	}
	require.Equal(t, map[string]bool{"1old": true, "2new": true, "3huge": false, "4link": false, "5dir": false, "6lost": false}, found)
	list, err = sessiondir.List(filepath.Join(dir, "missing"))
	require.NoError(t, err)
	require.Empty(t, list)
}

func TestADamagedInfoIsSetAside(t *testing.T) {
	at := filepath.Join(t.TempDir(), "1a")
	s, err := sessiondir.Open(at)
	require.NoError(t, err)
	require.NoError(t, s.WriteInfo([]byte("damaged")))
	name, err := s.SetAside(time.Now())
	require.NoError(t, err)
	kept, err := os.ReadFile(filepath.Join(at, name))
	require.NoError(t, err)
	require.Equal(t, "damaged", string(kept))
	_, err = s.Info()
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, s.Close())
}

func TestPrune(t *testing.T) {
	for name, tt := range map[string]struct {
		limits sessiondir.Limits
		left   []string
	}{
		"no limit":         {sessiondir.Limits{}, []string{"1a", "2b", "3c", "4d"}},
		"number":           {sessiondir.Limits{Number: 2}, []string{"1a", "2b", "4d"}}, // 4d is open
		"bytes":            {sessiondir.Limits{Bytes: 25}, []string{"1a", "2b", "4d"}},
		"age":              {sessiondir.Limits{Age: 36 * time.Hour}, []string{"1a", "4d"}},
		"the strictest is": {sessiondir.Limits{Number: 3, Bytes: 15, Age: time.Hour * 1000}, []string{"1a", "4d"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for i, id := range []string{"1a", "2b", "3c", "4d"} {
				begin(t, dir, id, "ten bytes.", i+1)
			}
			open, err := sessiondir.Open(filepath.Join(dir, "4d"))
			require.NoError(t, err)
			defer open.Close()
			removed, err := sessiondir.Prune(t.Context(), dir, tt.limits, time.Now())
			require.NoError(t, err)
			require.Equal(t, tt.left, ids(t, dir))
			require.Len(t, removed, 4-len(tt.left))
		})
	}
}

func TestPruneRemovesWhatNeverBegan(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for _, id := range []string{"1old", "2young", "3open"} {
		s, err := sessiondir.Open(filepath.Join(dir, id))
		require.NoError(t, err)
		if id == "3open" {
			defer s.Close()
		} else {
			require.NoError(t, s.Close())
		}
		if id != "2young" {
			require.NoError(t, os.Chtimes(filepath.Join(dir, id), now, now.Add(-2*time.Hour)))
		}
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "not a session"), 0o700))
	removed, err := sessiondir.Prune(t.Context(), dir, sessiondir.Limits{}, now)
	require.NoError(t, err)
	require.Empty(t, removed, "no session was removed")
	for name, stays := range map[string]bool{"1old": false, "2young": true, "3open": true, "not a session": true} {
		_, err := os.Lstat(filepath.Join(dir, name))
		require.Equal(t, stays, err == nil, name)
	}

	removed, err = sessiondir.Prune(t.Context(), filepath.Join(dir, "missing"), sessiondir.Limits{}, now)
	require.NoError(t, err)
	require.Empty(t, removed)
}

func TestPruneEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	begin(t, dir, "1a", "{}", 5)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := sessiondir.Prune(ctx, dir, sessiondir.Limits{Age: time.Hour}, time.Now())
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []string{"1a"}, ids(t, dir))
}

// TestHoldersOfOneSession opens, removes and lists one session at the same time: at
// any moment one of them has it at most, and none that was removed is open.
func TestHoldersOfOneSession(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "1a")
	var holders, opened atomic.Int64
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 50 {
				_, _ = sessiondir.List(dir)
				s, err := sessiondir.Open(at)
				if err != nil {
					continue
				}
				if holders.Add(1) != 1 {
					t.Error("two have the session open")
				}
				opened.Add(1)
				if err := s.WriteInfo([]byte("{}")); err != nil {
					t.Error(err)
				}
				holders.Add(-1)
				if (i+n)%2 == 0 {
					err = s.Remove()
				} else {
					err = s.Close()
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.Positive(t, opened.Load())
}
