package lineinput

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// Flush drops what was typed at a console and not read yet.
func Flush(console *os.File) error {
	if err := windows.FlushConsoleInputBuffer(windows.Handle(console.Fd())); err != nil {
		return fmt.Errorf("drop what was typed ahead: %w", err)
	}
	return nil
}

// More always returns false. A console cannot tell, since a key that is released
// counts as input too.
func More(*os.File, time.Duration) bool { return false }

// drain reads nothing. Flush drops everything.
func drain(*os.File) (last byte, ok bool) { return 0, false }
