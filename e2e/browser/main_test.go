// Package browser tests the web page in Chromium, against real servers. It is a module
// of its own, so that nobody who uses pygent gets what drives a browser.
package browser

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"

	"github.com/chromedp/chromedp"
)

// chromium is the context of the one browser of all tests; each test has a window of its
// own in it while it runs. It is nil if there is no Chromium.
var chromium context.Context

// emptyPage is the address of a page with nothing in it, of the same site as the pages of
// tests: the process that shows them stays for the next one.
var emptyPage string

func TestMain(m *testing.M) { os.Exit(run(m)) }

// programs is a directory for what the tests build.
var programs string

func run(m *testing.M) int {
	var err error
	if programs, err = os.MkdirTemp("", "pygent-browser-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(programs)
	path, err := findChromium()
	if err != nil {
		if os.Getenv("PYGENT_TEST_REQUIRE_TOOLS") != "" {
			fmt.Fprintln(os.Stderr, "scripts/chromium.sh installs what is missing:", err)
			return 1
		}
		return m.Run()
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.NoSandbox, // CI is root in a container
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("hide-scrollbars", false),
		// Starting a process costs more than a tab in one that is there.
		chromedp.Flag("disable-features", "Translate,SpareRendererForSitePerProcess"),
		chromedp.Flag("renderer-process-limit", "1"), // for each site in a window
	)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	browser, cancel := chromedp.NewContext(allocator)
	defer cancel()
	if err := chromedp.Do(browser); err != nil {
		fmt.Fprintln(os.Stderr, "start Chromium:", err)
		return 1
	}
	chromium = browser
	empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
	}))
	defer empty.Close()
	emptyPage = empty.URL
	return m.Run()
}

// findChromium returns the path of Chromium. The shell of it that has no window, and none
// of the services around one, shows pages with the same engine, for half of the work.
func findChromium() (string, error) {
	if path, err := exec.LookPath("chromium-headless-shell"); err == nil {
		return path, nil
	}
	return exec.LookPath("chromium")
}
