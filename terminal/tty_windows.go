package terminal

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/windows"
)

// notifyResize does nothing: the size comes with the keys.
func notifyResize(chan<- os.Signal) {}

// enableSequences has the console obey control sequences, and wrap and end lines as other
// terminals do: after the last column the cursor waits for the next character, and a line
// feed goes to no other column.
func enableSequences() (restore func(), err error) {
	out, err := windows.GetStdHandle(windows.STD_OUTPUT_HANDLE)
	var mode uint32
	if err == nil {
		err = windows.GetConsoleMode(out, &mode)
	}
	if err == nil {
		err = windows.SetConsoleMode(out, mode|windows.ENABLE_PROCESSED_OUTPUT|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING|windows.DISABLE_NEWLINE_AUTO_RETURN)
	}
	if err != nil {
		return nil, fmt.Errorf("set the console's mode: %w", err)
	}
	return func() { _ = windows.SetConsoleMode(out, mode) }, nil
}

// notifyContinued does nothing: Windows does not suspend processes.
func notifyContinued(chan<- os.Signal) {}

// notifyStopped does nothing: Windows does not suspend processes.
func notifyStopped(chan<- os.Signal) {}

// notifyQuit does nothing: there is no such signal.
func notifyQuit(chan<- os.Signal) {}

// quitProcess does nothing.
func quitProcess() {}

// stopProcess returns false: Windows does not suspend processes.
func stopProcess() bool { return false }

// keyBytes returns the reader of the console's events.
func keyBytes(r io.Reader) io.Reader { return r }
