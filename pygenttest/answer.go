package pygenttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/x/pygent"
)

// answer is a reply on its way to a client.
type answer struct {
	reply Reply
	w     http.ResponseWriter
}

// fail answers with an error's status, or closes the connection for an error
// without one.
func (a *answer) fail(ctx context.Context, err error) {
	var apiErr *pygent.APIError
	switch {
	case ctx.Err() != nil:
		abort()
	case !errors.As(err, &apiErr):
		apiErr = &pygent.APIError{Status: http.StatusInternalServerError, Code: "server_error", Message: err.Error()}
	case !validStatus(apiErr.Status):
		abort()
	}
	writeError(a.w, apiErr, a.reply.fault)
}

// raw sends the bytes of a fault.
func (a *answer) raw(ctx context.Context) {
	f := a.reply.fault
	a.w.Header().Set("Content-Type", f.contentType)
	if f.events == nil {
		if f.breaks {
			a.cutBody(f.status, []byte(f.body))
		}
		a.w.WriteHeader(f.status)
		_, _ = io.WriteString(a.w, f.body) // the client may be gone, which is its right
		return
	}
	a.send(ctx, f.status, a.broken(f.events, f.after), 0)
}

// plain sends the whole answer in one body.
func (a *answer) plain(enc *encoder, resp *pygent.ChatResponse) {
	body, err := enc.completion(resp)
	f := a.reply.fault
	switch {
	case err != nil:
		writeError(a.w, &pygent.APIError{Status: http.StatusUnprocessableEntity, Message: err.Error()}, nil)
		return
	case f != nil && f.breaks && f.event != nil:
		body = errorObject(f.event, f)
	}
	if f != nil && f.breaks && f.event == nil {
		b, err := json.Marshal(body)
		if err != nil || f.after <= 0 {
			abort()
		}
		a.w.Header().Set("Content-Type", "application/json")
		a.cutBody(http.StatusOK, b)
	}
	writeJSON(a.w, http.StatusOK, body)
}

// cutBody sends half of the body and closes the connection.
func (a *answer) cutBody(status int, body []byte) {
	a.w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	a.w.WriteHeader(status)
	_, _ = a.w.Write(body[:len(body)/2])
	_ = http.NewResponseController(a.w).Flush()
	abort()
}

// stream sends the answer as events.
func (a *answer) stream(ctx context.Context, enc *encoder, resp *pygent.ChatResponse, withUsage bool) {
	chunks, pieces := enc.chunks(resp, withUsage)
	events := make([]string, 0, len(chunks)+1)
	for _, c := range chunks {
		b, err := json.Marshal(c)
		if err != nil {
			writeError(a.w, &pygent.APIError{Status: http.StatusUnprocessableEntity, Message: err.Error()}, nil)
			return
		}
		events = append(events, string(b))
	}
	if !enc.has(QuirkNoDone) && !enc.has(QuirkNoFinishReason) {
		events = append(events, "[DONE]")
	}
	if f := a.reply.fault; f != nil && f.after > 0 {
		events = a.broken(events, 1+min(f.after, pieces))
	} else {
		events = a.broken(events, 0)
	}
	a.w.Header().Set("Content-Type", "text/event-stream")
	a.send(ctx, http.StatusOK, events, 1)
}

// broken returns the first n events, and the event that says why, of an
// answer that breaks off; else all events.
func (a *answer) broken(events []string, n int) []string {
	f := a.reply.fault
	if f == nil || !f.breaks {
		return events
	}
	events = slices.Clone(events[:min(max(0, n), len(events))])
	if f.event != nil {
		b, err := json.Marshal(errorObject(f.event, f))
		if err != nil {
			abort()
		}
		events = append(events, string(b))
	}
	return events
}

// send writes the events, pausing before each but the first and the next
// together that belong to it, and closes the connection where the reply is cut.
func (a *answer) send(ctx context.Context, status int, events []string, together int) {
	f := a.reply.fault
	cut := f != nil && f.breaks && f.event == nil
	if cut && len(events) == 0 {
		abort()
	}
	prefix := "data: "
	if slices.Contains(a.reply.quirks, QuirkKeepAlive) {
		prefix = ": keep-alive\n\ndata: "
	}
	a.w.WriteHeader(status)
	out := http.NewResponseController(a.w)
	for i, event := range events {
		if i > together && a.reply.chunk.wait(ctx) != nil {
			abort()
		}
		_, _ = fmt.Fprintf(a.w, "%s%s\n\n", prefix, event)
		if out.Flush() != nil {
			abort()
		}
	}
	if cut {
		abort()
	}
}

// abort closes the connection, as net/http defines it for handlers.
func abort() { panic(http.ErrAbortHandler) }
