package web

import (
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/x/pygent/internal/workspace"
)

// openBrowser opens a page in the user's browser, until close is called. The address
// has the token, and other users of the machine can read the arguments of programs; so
// the browser is given a file that only the user can read, which leads there. If this
// process is killed, a later one removes the file. That there is no browser is no error:
// the address was printed.
func openBrowser(address string) (closeFile func()) {
	dir, err := workspace.MakeTemp(false)
	if err != nil {
		return func() {}
	}
	closeFile = func() { _ = workspace.RemoveTemp(dir) }
	path := filepath.Join(dir, "open.html")
	page := fmt.Sprintf(`<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0; url=%[1]s"><title>Pygent</title><a href="%[1]s">Open the page</a>`,
		html.EscapeString(address))
	if os.WriteFile(path, []byte(page), 0o600) != nil {
		return closeFile
	}
	cmd := opener(path)
	cmd.SysProcAttr = ownSession() // Ctrl-C is not meant for the browser
	if cmd.Start() == nil {
		_ = cmd.Process.Release() // the browser is the user's
	}
	return closeFile
}

// opener is the command that opens a file as the user would.
func opener(path string) *exec.Cmd {
	switch runtime.GOOS {
	case "darwin":
		return exec.Command("open", path)
	case "windows":
		return exec.Command("rundll32", "url.dll,FileProtocolHandler", path)
	}
	return exec.Command("xdg-open", path)
}
