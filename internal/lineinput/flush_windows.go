package lineinput

import (
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// Flush drops what was typed at a console and was not read yet.
func Flush(console *os.File) error {
	if err := windows.FlushConsoleInputBuffer(windows.Handle(console.Fd())); err != nil {
		return fmt.Errorf("drop what was typed ahead: %w", err)
	}
	return nil
}

// More cannot be told here: a key that is let go counts as input of a console.
func More(*os.File) bool { return false }

// drain leaves all to Flush.
func drain(*os.File) (last byte, ok bool) { return 0, false }
