package stash_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/stash"
)

// pack writes an archive of entries: a directory ends with "/".
func pack(w io.Writer, names ...string) error {
	tw := tar.NewWriter(w)
	for _, name := range names {
		h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(name)), Mode: 0o644, Format: tar.FormatPAX, PAXRecords: map[string]string{"PYGENT.x": name}}
		if strings.HasSuffix(name, "/") {
			h = &tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755}
		}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if h.Size > 0 {
			if _, err := io.WriteString(tw, name); err != nil {
				return err
			}
		}
	}
	return tw.Close()
}

// entries are the names in an archive, whose files hold their names.
func entries(t *testing.T, r io.Reader) (names []string) {
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		require.NoError(t, err)
		if h.Typeflag == tar.TypeReg {
			data, err := io.ReadAll(tr)
			require.NoError(t, err)
			require.Equal(t, h.Name, string(data))
			require.Equal(t, h.Name, h.PAXRecords["PYGENT.x"])
		}
		names = append(names, h.Name)
	}
}

func TestCachesAreLeftOutOfADirectory(t *testing.T) {
	for name, tt := range map[string]struct {
		path string
		all  []string
		want []string
		said string
	}{
		"none": {".", []string{"./", "a", "d/", "d/b"}, []string{"./", "a", "d/", "d/b"}, ""},
		"one":  {".", []string{"./", "a", "node_modules/", "node_modules/x/", "node_modules/x/1", "node_modules/2"}, []string{"./", "a"}, "node_modules (2 files)"},
		"several of a name": {"d", []string{"./", ".git/", ".git/HEAD", "a/", "a/__pycache__/", "a/__pycache__/1", "b/", "b/__pycache__/", "b/__pycache__/2", "b/c"},
			[]string{"./", "a/", "b/", "b/c"}, ".git (1 file) and __pycache__ in 2 places (2 files)"},
		"three": {".", []string{"./", ".git/", ".git/HEAD", ".venv/", "node_modules/"}, []string{"./"}, ".git (1 file), .venv (0 files) and node_modules (0 files)"},
		"one in another": {".", []string{"./", "node_modules/", "node_modules/x/", "node_modules/x/node_modules/", "node_modules/x/node_modules/1"},
			[]string{"./"}, "node_modules (1 file)"},
		"below":                           {".", []string{"./", "web app/", "web app/node_modules/", "web app/node_modules/1"}, []string{"./", "web app/"}, "web app/node_modules (1 file)"},
		"a file":                          {".", []string{"./", ".git", "venv"}, []string{"./", ".git", "venv"}, ""},
		"the file alone":                  {"venv.txt", []string{"venv.txt"}, []string{"venv.txt"}, ""},
		"named itself":                    {"node_modules", []string{"./", "1", "x/", "x/node_modules/", "x/node_modules/1"}, []string{"./", "1", "x/", "x/node_modules/", "x/node_modules/1"}, ""},
		"named in it":                     {".git/hooks", []string{"./", "1", "__pycache__/"}, []string{"./", "1", "__pycache__/"}, ""},
		"Cargo's":                         {".", []string{"./", "Cargo.toml", "src/", "src/target/", "src/target/mine", "target/", "target/debug/", "target/debug/1"}, []string{"./", "Cargo.toml", "src/", "src/target/", "src/target/mine"}, "target (1 file)"},
		"Cargo's, whose file comes later": {".", []string{"./", "target/", "target/debug/", "target/debug/1", "src/", "target/2", "Cargo.toml", "target/3"}, []string{"./", "src/", "Cargo.toml"}, "target (3 files)"},
		"Maven's below, whose file comes later": {".", []string{"./", "a/", "a/target/", "a/target/1", "a/pom.xml", "target/", "target/mine"},
			[]string{"./", "a/", "a/pom.xml", "target/", "target/mine"}, "a/target (1 file)"},
		"one's own, whose build comes later": {".", []string{"./", "target/", "target/b/", "target/b/target/", "target/b/target/1", "target/b/Cargo.toml", "z"},
			[]string{"./", "z", "target/", "target/b/", "target/b/Cargo.toml"}, "target/b/target (1 file)"},
		"one's own": {".", []string{"./", "target/", "target/mine"}, []string{"./", "target/", "target/mine"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var left stash.LeftOut
			var b bytes.Buffer
			require.NoError(t, left.Filter(t.Context(), tt.path, &b, func(w io.Writer) error { return pack(w, tt.all...) }))
			require.Equal(t, tt.want, entries(t, &b))
			require.Equal(t, tt.said, left.Words())
		})
	}
}

func TestAFilteredCopyFailsAsItsSource(t *testing.T) {
	var left stash.LeftOut
	gone := errors.New("gone")
	err := left.Filter(t.Context(), ".", io.Discard, func(w io.Writer) error { return gone })
	require.ErrorIs(t, err, gone)
	err = left.Filter(t.Context(), ".", io.Discard, func(w io.Writer) error {
		_, err := io.WriteString(w, strings.Repeat("no archive", 1000))
		return err
	})
	require.Error(t, err)
}

func TestACopyIsToldAsOneSpeaks(t *testing.T) {
	for want, c := range map[string]stash.Copied{
		"0 files (0 bytes)":  {},
		"1 file (1 byte)":    {Files: 1, Bytes: 1},
		"2 files (12 bytes)": {Files: 2, Bytes: 12, Replaced: stash.Unknown},
		"1 file (12 bytes), which replaced an existing one":              {Files: 1, Bytes: 12, Replaced: 1},
		"2 files (12 bytes), which replaced existing ones":               {Files: 2, Bytes: 12, Replaced: 2},
		"2 files (12 bytes), one of which replaced an existing file":     {Files: 2, Bytes: 12, Replaced: 1},
		"5,000 files (12 bytes), 1,234 of which replaced existing files": {Files: 5000, Bytes: 12, Replaced: 1234},
	} {
		require.Equal(t, want, c.Words())
	}
}
