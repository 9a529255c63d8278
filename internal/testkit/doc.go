// Package testkit has what the tests of several packages of this module need and users of
// the module do not: agents and runtimes that end with their test, what they left on disk,
// the kinds of runtimes, the engines that tests may use, and processes that are killed. What
// a user's tests need, too, is in package pygenttest.
package testkit

import (
	"flag"
	"os"
	"runtime"
	"strconv"

	"go.uber.org/goleak"
)

// stateVariable is set in the processes that a test starts.
const stateVariable = "PYGENT_TEST_STATE"

// Main runs the tests of a package and ends the process. It gives the tests, and the
// processes of their own program that they start, a state directory of their own, and fails
// if a goroutine is left. Most tests wait for engines and processes, so more of them run at
// the same time than there are processors.
func Main(m goleak.TestingM) {
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
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// isSet reports whether a flag was given.
func isSet(name string) (set bool) {
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}
