package hush

import (
	"bytes"
	"log"
	"testing"

	"github.com/stretchr/testify/require"
)

// It is not parallel: the log is the process's.
func TestOnlyTheInterpreterIsHushedUntilTheEnd(t *testing.T) {
	was := log.Writer()
	t.Cleanup(func() { log.SetOutput(was) })
	var out bytes.Buffer
	log.SetOutput(filter{&out})
	log.Print("Starlark failed to allocate 4GB address space: cannot allocate memory.")
	require.Empty(t, out.String())
	log.Print("the program's own")
	require.Contains(t, out.String(), "the program's own")
	End()
	require.Same(t, &out, log.Writer())
	End()
	require.Same(t, &out, log.Writer(), "there is nothing to end")
}
