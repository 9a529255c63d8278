package terminal

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheBestFilesComeFirst(t *testing.T) {
	f := fileList{}
	for _, name := range []string{"cmd/", "cmd/domain.go", "main.go", "maintain/x.go", "my/air.in", "other.txt"} {
		f.list = append(f.list, listedFile{path: name, lower: name})
	}
	var got []string
	for _, file := range f.match("MAIN") {
		got = append(got, file.path)
	}
	require.Equal(t, []string{"main.go", "maintain/x.go", "cmd/domain.go", "my/air.in"}, got)
	require.Len(t, f.match(""), 6)
}
