package sandbox

import (
	"context"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/treedir"
)

// forbidding is a directory of which this process may not list "closed", read
// "private", or change anything.
type forbidding struct{ *treedir.Local }

func (f forbidding) ScanBelow(ctx context.Context, dir string, yield func(treedir.Entry) error) error {
	return f.Local.ScanBelow(ctx, dir, func(e treedir.Entry) error {
		if strings.HasPrefix(e.Name, "closed/") {
			return nil
		}
		err := yield(e)
		if err == nil && e.Name == "closed" {
			e.Err = fs.ErrPermission
			err = yield(e)
		}
		return err
	})
}

func (f forbidding) Read(ctx context.Context, names iter.Seq[string], yield func(string, treedir.Opened, error) error) error {
	return f.Local.Read(ctx, names, func(name string, file treedir.Opened, err error) error {
		if name == "private" {
			return yield(name, nil, fs.ErrPermission)
		}
		return yield(name, file, err)
	})
}

func (f forbidding) Make(_ context.Context, _ treedir.Step, content io.Reader) error {
	_, _ = content.Read(make([]byte, 2))
	return fs.ErrPermission
}

// withGuest is a commander whose commands may have other rights.
type withGuest struct{ Commander }

func (withGuest) Running() *guest.Client      { return nil }
func (withGuest) User(context.Context) string { return "" }
func (withGuest) Close() error                { return nil }

// below is a directory in place of the guest's.
type below struct{ *treedir.Local }

func TestTheGuestDoesWhatThisProcessMayNot(t *testing.T) {
	w, err := OpenWorkspace(t.Context(), Config{Workspace: t.TempDir()}, false)
	require.NoError(t, err)
	r, err := New(Parts{Workspace: w, Files: HostFiles{w.Tree}, Commands: withGuest{}}, Config{ReadLimit: 1 << 20, Events: NewEvents(nil, slog.New(slog.DiscardHandler))})
	require.NoError(t, err)
	defer r.Cleanup()
	for name, content := range map[string]string{"closed/a": "1", "closed/b": "2", "open": "3", "private": "4"} {
		require.NoError(t, r.WriteFile(t.Context(), name, []byte(content)))
	}
	tree, err := r.OpenWorkTree()
	require.NoError(t, err)
	defer tree.Close()
	inside, err := treedir.OpenLocal(r.Dir())
	require.NoError(t, err)
	defer inside.Close()
	tree.local = forbidding{tree.local.(*treedir.Local)}
	var running guestTree
	tree.inside = func(_ context.Context, start bool) (guestTree, error) {
		if start {
			running = below{inside}
		}
		return running, nil
	}
	look := func() (names []string, private string) {
		require.NoError(t, tree.Scan(t.Context(), func(e treedir.Entry) error {
			if e.Err != nil {
				names = append(names, e.Name+"?")
				return nil
			}
			names = append(names, e.Name)
			return nil
		}))
		require.NoError(t, tree.Read(t.Context(), slices.Values([]string{"open", "private"}), func(name string, f treedir.Opened, err error) error {
			if err != nil {
				private = err.Error()
				return nil
			}
			data, err := io.ReadAll(f)
			private = string(data)
			return err
		}))
		return names, private
	}
	names, private := look()
	require.Equal(t, []string{"closed", "closed?", "open", "private"}, names)
	require.Equal(t, fs.ErrPermission.Error(), private)

	text := "whole"
	step := treedir.Step{
		Change: treedir.Change{Name: "closed/new", New: treedir.Item{Kind: treedir.File, Mode: 0o644, Size: int64(len(text)), Content: treedir.NameOf(treedir.KindData, []byte(text))}},
		Aside:  ".pygent-0123456789",
	}
	require.ErrorIs(t, tree.Make(t.Context(), step, io.MultiReader(strings.NewReader(text))), fs.ErrPermission, "what was read of it cannot be read again")
	require.NoError(t, tree.Make(t.Context(), step, strings.NewReader(text)))
	data, err := r.ReadFile(t.Context(), "closed/new")
	require.NoError(t, err)
	require.Equal(t, text, string(data))
	require.NoError(t, tree.Sync(t.Context()))

	names, private = look()
	require.Equal(t, []string{"closed", "closed/a", "closed/b", "closed/new", "open", "private"}, names)
	require.Equal(t, "4", private)
}
