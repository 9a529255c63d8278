package journal_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/journal"
	"github.com/x/pygent/internal/journal/memdisk"
)

// numbered is a format whose elements are objects with a number n. After a
// damaged part n must be positive.
var numbered = journal.Format[int]{
	Read: func(value []byte, sure bool) (int, error) {
		var e struct{ N *int }
		if err := json.Unmarshal(value, &e); err != nil {
			return 0, err
		}
		if e.N == nil || !sure && *e.N <= 0 {
			return 0, errors.New("no number")
		}
		return *e.N, nil
	},
	Begins: func(text []byte) bool {
		const begin = `{"n":`
		n := min(len(text), len(begin))
		return string(text[:n]) == begin[:n]
	},
}

func TestScan(t *testing.T) {
	tests := map[string]struct {
		data   string
		want   []int
		damage string // start, end and after of each part; ! for a cut
	}{
		"sound":                         {"[\n{\"n\":1},\n{\"n\":2}\n]\n", []int{1, 2}, ""},
		"empty":                         {"[]", nil, ""},
		"cut behind the bracket":        {"[", nil, "1-1 after 0!"},
		"cut in the first":              {"[\n{\"n", nil, "2-5 after 0!"},
		"cut behind one":                {`[{"n":1}`, []int{1}, "8-8 after 1!"},
		"cut behind a comma":            {`[{"n":1},]`, []int{1}, "8-10 after 1!"},
		"cut in one":                    {`[{"n":1}, {"n":`, []int{1}, "8-15 after 1!"},
		"damaged":                       {`[{"n":1},{"n":?},{"n":3}]`, []int{1, 3}, "9-17 after 1"},
		"damaged twice":                 {`[{"n":1},{?},{"n":3},{?},{"n":5}]`, []int{1, 3, 5}, "9-13 after 1, 21-25 after 2"},
		"damaged between":               {`[{"n":1}?{"n":2}]`, []int{1, 2}, "8-9 after 1"},
		"damaged to the end":            {`[{"n":1},{"n":?}]`, []int{1}, "9-17 after 1"},
		"one of another kind":           {`[{"n":1},{"n":2},{"m":3},{"n":4}]`, []int{1, 2, 4}, "17-24 after 2"},
		"no sure element behind it":     {`[{"n":1},{?},{"n":0},{"n":3}]`, []int{1, 3}, "9-21 after 1"},
		"elements in a damaged one":     {`[{"n":1},{"n":2,"l":[{"n":7},{"n":8}],?},{"n":3}]`, []int{1, 3}, "9-41 after 1"},
		"elements in a headless one":    {`[{"n":1},?"n":2,"l":[{"n":7},{"n":8}]},{"n":3}]`, []int{1, 3}, "9-39 after 1"},
		"a field in a headless one":     {`[{"n":1},?"n":2,"f":{"n":7},"g":1},{"n":3}]`, []int{1, 3}, "9-35 after 1"},
		"more behind the end":           {"[{\"n\":1}] {", []int{1}, "8-11 after 1"},
		"a block of zeros at the begin": {"\x00\x00\x00\x00:1},\n{\"n\":2}\n]\n", []int{2}, "0-9 after 0"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			found, err := journal.Scan([]byte(tt.data), numbered)
			require.NoError(t, err)
			require.Equal(t, tt.want, found.Elements)
			got := ""
			for i, d := range found.Damage {
				if i > 0 {
					got += ", "
				}
				got += fmt.Sprintf("%d-%d after %d", d.Start, d.End, d.After)
				if d.Cut {
					got += "!"
				}
			}
			require.Equal(t, tt.damage, got)
			require.Equal(t, tt.damage == "", found.Sound())
		})
	}
}

func TestScanRefusesWhatIsForeign(t *testing.T) {
	for _, data := range []string{"", " ", "{}", "[1]", `[{"n":1},2]`, `[{"m":`, "[?", "[] []", "\x00\x00", "text", "\ufeff", "\ufeffx"} {
		_, err := journal.Scan([]byte(data), numbered)
		var foreign *journal.ForeignError
		require.ErrorAs(t, err, &foreign, "%q", data)
	}
}

func TestJournalGoesOnWithWhatItUses(t *testing.T) {
	for _, data := range []string{"[]", "[ \n ]\n\n", `[{"n":1}]`, "[\n{\"n\":1}\n]\n"} {
		disk := memdisk.New()
		disk.Write("/j", []byte(data))
		j, read, err := journal.Open(disk, "/j")
		require.NoError(t, err)
		require.Equal(t, data, string(read))
		found, err := journal.Scan(read, numbered)
		require.NoError(t, err)
		require.True(t, found.Sound())
		j.Use(found.End, len(found.Elements) == 0)
		require.NoError(t, j.Append([]byte(`{"n":2}`), []byte(`{"n":3}`)))
		require.NoError(t, j.Sync())
		require.NoError(t, j.Close())
		again, err := journal.Scan([]byte(disk.Names()["/j"]), numbered)
		require.NoError(t, err)
		require.True(t, again.Sound())
		require.Equal(t, append(found.Elements, 2, 3), again.Elements)
	}
}

func TestBlankFileBecomesAnArray(t *testing.T) {
	disk := memdisk.New()
	disk.Write("/j", []byte("  \n\n\n      \n"))
	j, data, err := journal.Open(disk, "/j")
	require.NoError(t, err)
	require.Equal(t, "[\n]\n", string(data))
	require.NoError(t, j.Append([]byte(`{}`)))
	require.NoError(t, j.Close())
	require.Equal(t, "[\n{}\n]\n", disk.Names()["/j"])
}

func TestKeptFileIsCopiedWhereThereAreNoLinks(t *testing.T) {
	disk := noLinks{memdisk.New()}
	disk.Write("/j", []byte("damaged"))
	j, _, err := journal.Open(disk, "/j")
	require.NoError(t, err)
	kept, err := j.Repair([][]byte{[]byte(`1`)})
	require.NoError(t, err)
	require.NoError(t, j.Close())
	require.Equal(t, map[string]string{"/j": "[\n1\n]\n", kept: "damaged"}, disk.Names())
}

// noLinks is a disk without hard links.
type noLinks struct{ *memdisk.Disk }

func (noLinks) Link(string, string) error { return errors.ErrUnsupported }

func TestFailureIsToldOnce(t *testing.T) {
	disk := stuck{memdisk.New()}
	j, _, err := journal.Open(disk, "/j")
	require.NoError(t, err)
	require.NoError(t, j.Append([]byte(`1`)))
	disk.SetRoom(0)
	require.EqualError(t, j.Append([]byte(`2`)), "write /j: no space left on device")
	disk.SetRoom(-1)
	require.NoError(t, j.Append([]byte(`3`)))
	require.NoError(t, j.Close())
	require.Equal(t, "[\n1,\n2,\n3\n]\n", disk.Names()["/j"])
}

// stuck is a disk whose files can be truncated only to nothing.
type stuck struct{ *memdisk.Disk }

type stuckFile struct{ journal.File }

func (d stuck) OpenFile(name string, flag int, perm fs.FileMode) (journal.File, error) {
	f, err := d.Disk.OpenFile(name, flag, perm)
	return stuckFile{f}, err
}

func (f stuckFile) Truncate(size int64) error {
	if size == 0 {
		return f.File.Truncate(size)
	}
	return &fs.PathError{Op: "truncate", Path: "/j", Err: syscall.ENOSPC}
}

func TestNamesBesideAreNeverReused(t *testing.T) {
	disk := memdisk.New()
	names := map[string]bool{}
	for range 5 {
		disk.Write("/j", []byte("damaged"))
		j, _, err := journal.Open(disk, "/j")
		require.NoError(t, err)
		kept, err := j.Repair(nil)
		require.NoError(t, err)
		require.False(t, names[kept])
		names[kept] = true
		require.NoError(t, j.Close())
	}
	require.Len(t, disk.Names(), 6)
}
