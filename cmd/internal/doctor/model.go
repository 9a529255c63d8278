package doctor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"net/http"
	"slices"
	"strings"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/spelling"
	"github.com/x/pygent/openai"
)

// Abilities are what a model was seen to do. What it did not do may still be possible: a
// model that answers without reasoning here may reason about a harder question.
type Abilities struct {
	Streaming     bool  `json:"streaming"`        // its answer came in pieces
	Tools         bool  `json:"tools"`            // it called the tool that it was told to call
	ParallelCalls bool  `json:"parallel_calls"`   // it called it twice in one answer
	Images        *bool `json:"images,omitempty"` // it saw what is in an image; nil if it was not asked in time
	Reasoning     bool  `json:"reasoning"`        // it showed its reasoning, or the server counted some
	Window        int64 `json:"window,omitempty"` // in tokens; 0 if the server does not report it
	Tokens        int64 `json:"tokens"`           // what the requests took
}

// String lists the abilities.
func (a Abilities) String() string {
	said := func(yes bool) string {
		if yes {
			return "yes"
		}
		return "no"
	}
	images, window := "not checked", "unknown"
	if a.Images != nil {
		images = said(*a.Images)
	}
	if a.Window > 0 {
		window = numeral.Grouped(a.Window) + " tokens"
	}
	return fmt.Sprintf("streaming %s, tools %s, parallel calls %s, images %s, reasoning %s, window %s (checked with %s tokens)",
		said(a.Streaming), said(a.Tools), said(a.ParallelCalls), images, said(a.Reasoning), window, numeral.Grouped(a.Tokens))
}

// checkModel asks the server for its models, which costs nothing, and then the model. It
// reports about both the key and the model: some servers check the key only for the model.
func (e *exam) checkModel(ctx context.Context) {
	c := e.cfg.OpenAI
	model, err := openai.New(append(c.Options(), openai.Env(nil), openai.DefaultModel(e.cfg.Model))...)
	if err != nil {
		do := "Correct the setting."
		if errors.Is(err, openai.ErrNoModel) {
			err, do = openai.ErrNoModel, "Set OPENAI_API_KEY, or OPENAI_BASE_URL for a compatible server."
		}
		e.report("key", Problem, err.Error(), do)
		e.report("model", Problem, "not checked: there is no server to ask", "")
		return
	}
	defer model.CloseIdleConnections()
	s := &server{Model: model, hasKey: c.APIKey != "" || len(c.Headers) > 0}
	names, _ := model.ListModels(ctx) // many servers have no list, and a request to the model tells more
	answered := e.examineModel(ctx, s, names)
	e.reportKey(ctx, s, names, answered)
}

// server is the server of a model.
type server struct {
	*openai.Model
	hasKey bool
}

// isAnswer reports whether an error is what the server has answered.
func isAnswer(err error) bool {
	var api *chat.APIError
	return errors.As(err, &api) && api.Status != 0
}

// isRejection reports whether the server refuses the key.
func isRejection(err error) bool {
	var api *chat.APIError
	return errors.As(err, &api) && (api.Status == http.StatusUnauthorized || api.Status == http.StatusForbidden)
}

// reportKey reports about the key, from the names of the models that the server has listed and
// how it answered the request to the model.
func (e *exam) reportKey(ctx context.Context, s *server, names []string, answered error) {
	at := s.BaseURL()
	switch {
	case isRejection(answered) && !s.hasKey:
		e.report("key", Problem, "no key is set, and the server wants one: "+words(answered), "Set OPENAI_API_KEY for "+at+".")
	case isRejection(answered):
		e.report("key", Problem, "the server rejected the key: "+words(answered), "Check OPENAI_API_KEY, and that it is a key for "+at+".")
	case len(names) > 0 && s.hasKey:
		e.report("key", OK, fmt.Sprintf("%s accepts it and lists %s", at, numeral.Count(len(names), "model")), "")
	case len(names) > 0:
		e.report("key", OK, fmt.Sprintf("none is set, and %s lists %s without one", at, numeral.Count(len(names), "model")), "")
	case ctx.Err() != nil:
		e.report("key", Warning, fmt.Sprintf("%s did not answer within %s", at, Limit), "Check that the server works, and that this machine reaches it.")
	case !e.askModel:
		e.report("key", Warning, "not checked: "+at+" lists no models", "Without --no-model, the model is asked.")
	case answered == nil:
		e.report("key", OK, at+" accepts it", "")
	case isAnswer(answered):
		e.report("key", Warning, at+" answers, but lists no models", "Check that OPENAI_BASE_URL is the base of an API; most of these end in /v1.")
	default:
		e.report("key", Problem, "no answer from "+at+": "+answered.Error(), "Start the server, or correct OPENAI_BASE_URL.")
	}
}

// isTemporary reports whether a refusal has nothing to do with the request.
func isTemporary(err error) bool {
	var api *chat.APIError
	return errors.As(err, &api) && (api.Retryable || api.Status == http.StatusTooManyRequests)
}

// words are what a server says in an error.
func words(err error) string {
	var api *chat.APIError
	if errors.As(err, &api) {
		return fmt.Sprintf("status %d: %s", api.Status, api.Message)
	}
	return err.Error()
}

// examineModel asks the model, unless that was not wanted, and reports what it does. It
// returns the error of the first request.
func (e *exam) examineModel(ctx context.Context, s *server, names []string) error {
	name := s.DefaultModel()
	a := Abilities{Window: cmp.Or(e.cfg.ContextWindow, s.ContextWindow(ctx, ""))}
	if !e.askModel {
		state, do := OK, ""
		if len(names) > 0 && !listed(names, name) {
			state, do = Warning, otherModel(names, name)
		}
		e.report("model", state, name+" was not asked, as --no-model says", do)
		return nil
	}
	err := s.callTools(ctx, &a)
	switch {
	case ctx.Err() != nil:
		e.report("model", Warning, fmt.Sprintf("%s gave no answer within %s", name, Limit), "It may still be loading: run pygent doctor again, or read the server's log.")
	case isRejection(err):
		e.report("model", Problem, "not checked: the server refused the request", "")
	case err != nil && !isAnswer(err) && len(names) == 0:
		e.report("model", Problem, "not checked: the server could not be asked", "")
	case err != nil:
		e.reportRefusal(ctx, s, names, err)
	default:
		a.Images = s.sees(ctx, &a)
		e.reportAbilities(name, a)
	}
	return err
}

// reportAbilities reports what a model does that has answered.
func (e *exam) reportAbilities(name string, a Abilities) {
	f := Finding{Check: "model", Found: name + ": " + a.String(), State: OK, Abilities: &a}
	switch {
	case !a.Tools:
		f.State, f.Do = Problem, "The model did not call a tool that it was told to call: choose another one, or the option of the server that reads its calls (vLLM: --enable-auto-tool-choice and --tool-call-parser; llama.cpp: --jinja)."
	case a.Window == 0:
		f.Do = "If you know the window, set context_window, so that long conversations are compacted in time."
	}
	e.found["model"] <- f
}

// reportRefusal reports a request with tools that was refused, and finds out whether the
// model answers without them.
func (e *exam) reportRefusal(ctx context.Context, s *server, names []string, refusal error) {
	name := s.DefaultModel()
	if len(names) > 0 && !listed(names, name) {
		e.report("model", Problem, fmt.Sprintf("%s: %s", name, words(refusal)), otherModel(names, name))
		return
	}
	if isAnswer(refusal) && !isTemporary(refusal) {
		if _, err := s.Chat(ctx, &chat.Request{Messages: []chat.Message{chat.UserMessage("Say: yes")}}); err == nil {
			e.report("model", Problem, fmt.Sprintf("%s answers, but takes no tools: %s", name, words(refusal)), "Choose a model with tool calls, or the option of the server that reads its calls (vLLM: --enable-auto-tool-choice and --tool-call-parser; llama.cpp: --jinja).")
			return
		}
	}
	e.report("model", Problem, fmt.Sprintf("%s: %s", name, words(refusal)), "Correct that, or choose another model with --model.")
}

// listed reports whether a list of models has one of a name. Ollama leaves out ":latest".
func listed(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return n == name || n == name+":latest" })
}

// shownModels is how many names of models are shown.
const shownModels = 5

// otherModel says which models a server has instead of one.
func otherModel(names []string, name string) string {
	if like := spelling.Nearest(name, names); like != "" {
		return fmt.Sprintf("The server does not list %s: did you mean --model %s?", name, like)
	}
	return fmt.Sprintf("The server does not list %s. Choose one of its models with --model: %s.", name, numeral.Some(names, shownModels, false))
}

// probe is the tool of the request. Its parameters are those that every server takes.
var probe = chat.ToolSpec{
	Name:        "probe",
	Description: "Notes a number.",
	Parameters:  json.RawMessage(`{"type":"object","properties":{"number":{"type":"integer","description":"The number."}},"required":["number"]}`),
}

// callTools has the model call a tool twice, and notes what is seen.
func (s *server) callTools(ctx context.Context, a *Abilities) error {
	pieces := 0
	response, err := s.ChatStream(ctx, &chat.Request{
		Messages: []chat.Message{chat.UserMessage("Call the tool probe two times in this one answer: with the number 1, and with the number 2.")},
		Tools:    []chat.ToolSpec{probe},
		MustCall: true,
	}, func(d chat.Delta) {
		if d.Text != "" || d.Reasoning != "" || d.Call != nil {
			pieces++
		}
		a.Reasoning = a.Reasoning || d.Reasoning != ""
	})
	if err != nil {
		return err
	}
	calls := 0
	for _, call := range response.Message.ToolCalls {
		if call.Name == probe.Name {
			calls++
		}
	}
	a.Streaming, a.Tools, a.ParallelCalls = pieces > max(calls, 1), calls > 0, calls > 1
	a.Reasoning = a.Reasoning || response.Usage.ReasoningTokens > 0
	a.Tokens += response.Usage.Total()
	return nil
}

// sees asks the model for the colour of an image. It returns nil if there was no answer.
func (s *server) sees(ctx context.Context, a *Abilities) *bool {
	refused := false
	response, err := s.ChatStream(ctx, &chat.Request{
		Messages: []chat.Message{chat.UserMessage("Which colour has this image? Answer in one word.", chat.Part{ImageURL: redImage()})},
	}, func(d chat.Delta) { refused = refused || strings.Contains(d.Notice, "image") })
	if err != nil && !isAnswer(err) {
		return nil
	}
	yes := false
	if err == nil {
		yes = !refused && strings.Contains(strings.ToLower(response.Message.Text()), "red")
		a.Tokens += response.Usage.Total()
	}
	return &yes
}

// redImage is an image of the size that all models take, as an URL.
func redImage() string {
	const size = 64
	picture := image.NewPaletted(image.Rect(0, 0, size, size), color.Palette{color.RGBA{R: 255, A: 255}})
	draw.Draw(picture, picture.Bounds(), image.NewUniform(color.RGBA{R: 255, A: 255}), image.Point{}, draw.Src)
	var data bytes.Buffer
	_ = png.Encode(&data, picture) // a buffer takes it
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(data.Bytes())
}
