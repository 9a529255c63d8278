package browser

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// window is a window of the browser with storage of its own. A test that has passed leaves
// it to the next one, empty, since a new tab takes more time than most tests do in it.
type window struct {
	tabs    []tab
	used    int             // how many tabs the test has opened
	origins map[string]bool // what this and earlier tests have loaded
	spoilt  bool            // the next test cannot have it
}

// tab is a tab of a window; cancel closes it.
type tab struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// free are the windows that no test has. Tests run one after the other.
var free []*window

// newWindow is a window for a test, with no tab in use. It has never loaded anything from
// where the address is: a server may get the port of an earlier one, but neither what that
// one stored in the browser nor its worker, which may still be there.
func newWindow(t *testing.T, address string) *window {
	t.Helper()
	w := &window{origins: map[string]bool{}}
	if i := slices.IndexFunc(free, func(w *window) bool { return !w.origins[origin(address)] }); i >= 0 {
		w = free[i]
		free = slices.Delete(free, i, i+1)
	}
	w.used = 0
	t.Cleanup(func() {
		if t.Failed() || w.spoilt || w.clear() != nil {
			w.close()
			return
		}
		free = append(free, w)
	})
	return w
}

// tab is the next tab that the test has not opened, in front of the others as a new one is.
func (w *window) tab(t *testing.T) context.Context {
	t.Helper()
	if w.used == len(w.tabs) {
		option := chromedp.WithNewBrowserContext()
		if len(w.tabs) > 0 {
			option = chromedp.WithExistingBrowserContext(chromedp.FromContext(w.tabs[0].ctx).BrowserContextID)
		}
		ctx, cancel := chromedp.NewContext(chromium, option)
		w.tabs = append(w.tabs, tab{ctx, cancel})
		require.NoError(t, chromedp.Do(ctx)) // which opens it
	}
	ctx := w.tabs[w.used].ctx
	w.used++
	_, err := chromedp.Call(ctx, cdpage.BringToFront, cdp.Empty{})
	require.NoError(t, err)
	return ctx
}

// origin is what of an address decides over storage and workers.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil || !strings.HasPrefix(u.Scheme, "http") {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// visits notes that the test loads an address in the window.
func (w *window) visits(address string) {
	if from := origin(address); from != "" {
		w.origins[from] = true
	}
}

// clear leaves no page, no history and no cookies of the test in the window.
func (w *window) clear() error {
	ctx, cancel := context.WithTimeout(w.tabs[0].ctx, patience)
	defer cancel()
	for _, tab := range w.tabs[:w.used] {
		tabCtx, cancel := context.WithTimeout(tab.ctx, patience)
		defer cancel()
		if err := chromedp.Do(tabCtx, chromedp.Navigate(emptyPage)); err != nil {
			return err
		}
		if _, err := chromedp.Call(tabCtx, cdpage.ResetNavigationHistory, cdp.Empty{}); err != nil {
			return err
		}
	}
	_, err := chromedp.Call(ctx, network.ClearBrowserCookies, cdp.Empty{})
	return err
}

// close closes the tabs, and with the first one its storage.
func (w *window) close() {
	for i := len(w.tabs) - 1; i >= 0; i-- {
		w.tabs[i].cancel()
	}
}
