package browser

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/storage"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// window is a window of the browser with storage of its own. A test that has passed leaves
// it to the next one, empty, since a new tab takes more time than most tests do in it.
type window struct {
	tabs    []tab
	used    int             // how many tabs the test has opened
	origins map[string]bool // what the test has loaded
	spoilt  bool            // the next test cannot have it
}

// tab is a tab of a window; cancel closes it.
type tab struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// free are the windows that no test has. Tests run one after the other.
var free []*window

// newWindow is a window for a test, with no tab in use.
func newWindow(t *testing.T) *window {
	t.Helper()
	w := &window{}
	if last := len(free) - 1; last >= 0 {
		w, free = free[last], free[:last]
	}
	w.used, w.origins = 0, map[string]bool{}
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

// visits notes that the test loads an address in the window.
func (w *window) visits(address string) {
	if u, err := url.Parse(address); err == nil && strings.HasPrefix(u.Scheme, "http") {
		w.origins[u.Scheme+"://"+u.Host] = true
	}
}

// clear leaves nothing in the window of what the test did: no page, no history, and no
// storage, which a later server at the same port would find.
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
	for origin := range w.origins {
		_, err := chromedp.Call(ctx, storage.ClearDataForOrigin, storage.ClearDataForOriginParams{Origin: origin, StorageTypes: "all"})
		if err != nil {
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
