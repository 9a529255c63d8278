package pygent_test

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/x/pygent"
)

// TestMain gives the tests, and the processes that they start, their own state
// directory. Most tests wait for engines and processes, so more of them run at the same
// time than there are processors.
func TestMain(m *testing.M) {
	for name, face := range faceOfTests {
		pygent.RegisterFace(name, face)
	}
	flag.Parse()
	if !isSet("test.parallel") {
		if err := flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	if os.Getenv(stateVariable) != "" {
		goleak.VerifyTestMain(m)
	}
	dir, err := os.MkdirTemp("", "pygent-test-state")
	if err != nil {
		panic(err)
	}
	for name, value := range map[string]string{
		stateVariable: dir, "XDG_STATE_HOME": dir,
		"GORACE": "atexit_sleep_ms=0 " + os.Getenv("GORACE"), // children with the race detector would wait a second before they end
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(endingStarted{m}, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// isSet reports whether a flag was given.
func isSet(name string) (set bool) {
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

// stateVariable is set in the processes that a test starts.
const stateVariable = "PYGENT_TEST_STATE"
