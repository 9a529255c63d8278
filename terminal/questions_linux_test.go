package terminal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit/persontest"
	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/terminal"
)

// withQuestions gives the program of a session tools that ask the person.
const withQuestions = asSetup + "=questions"

// askHosts is what a runtime is given to ask about hosts.
var askHosts pygent.HostApprovalFunc

func init() {
	if os.Getenv(asSetup) == "questions" {
		pygent.RegisterFace(pygent.FaceTerminal, func(ctx context.Context, s pygent.FaceSession) error {
			return terminal.RunLendingHosts(ctx, s, func(f pygent.HostApprovalFunc) { askHosts = f })
		})
	}
	asks := func(t *pygent.Tool) { t.ReadOnly = true }
	setups["questions"] = []pygent.Option{pygent.WithTools(
		pygent.NewTool("ask", "Ask the user", ask, asks),
		pygent.NewTool("reach", "Reach hosts", reach, asks),
		pygent.NewTool("deploy", "Deploy", func(context.Context, pygent.Runtime, deployIn) (string, error) { return "deployed", nil }, func(t *pygent.Tool) { t.NeedsApproval = true }),
	)}
}

type deployIn struct {
	Where string   `json:"where"`
	Lines []string `json:"lines"`
}

// question is what the tool "ask" asks, until there is a file Until.
type question struct {
	Prompt  string          `json:"prompt,omitempty"`
	Options []string        `json:"options,omitempty"`
	Schema  json.RawMessage `json:"schema,omitempty"`
	Secret  bool            `json:"secret,omitempty"`
	Until   string          `json:"until,omitempty"`
}

// call makes the model ask.
func (q question) call() pygenttest.Reply { return pygenttest.Call("ask", q) }

func ask(ctx context.Context, rt pygent.Runtime, q question) (string, error) {
	asking, withdraw := context.WithCancel(ctx)
	defer withdraw()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if q.Until != "" {
			_, _ = look(asking, rt, lookIn{q.Until})
			withdraw()
		}
	}()
	answer, err := pygent.Ask(asking, pygent.Question{Prompt: q.Prompt, Options: q.Options, Schema: q.Schema, Secret: q.Secret})
	withdraw()
	<-watched
	switch {
	case err != nil:
		return "nobody answered", ctx.Err()
	case answer.Declined:
		return "declined", nil
	case q.Secret:
		return fmt.Sprintf("%d characters", len(answer.Text)), nil
	}
	return "answer: " + answer.Text + string(answer.Values), nil
}

type reachIn struct {
	Hosts []string `json:"hosts"`
}

func reach(ctx context.Context, _ pygent.Runtime, in reachIn) (string, error) {
	d, err := askHosts(ctx, pygent.HostRequest{Hosts: in.Hosts})
	return fmt.Sprintf("allow=%t session=%t reason=%q", d.Allow, d.Session, d.Reason), err
}

// says types an answer, and sends it.
func (p *person) says(text string) {
	p.t.Helper()
	p.reads()
	p.Type(text)
	p.Await(text)
	p.pauses() // else Enter comes together with the text, as in a paste
	p.Key("enter")
}

// does is a step of a person who answers.
type does func(p *person)

func presses(keys ...string) does { return func(p *person) { p.reads(); p.Key(keys...) } }
func types(key string) does       { return func(p *person) { p.answers(key) } }
func saying(text string) does     { return func(p *person) { p.says(text) } }
func sees(texts ...string) does   { return func(p *person) { p.Await(texts...) } }

// What commands want to reach is allowed for a while, for the session or for good,
// or refused.
func TestTheQuestionAboutHosts(t *testing.T) {
	for name, tt := range map[string]struct {
		steps []does
		want  string
		kept  bool
	}{
		"until the commands end": {[]does{types("y")}, `allow=true session=false reason=""`, false},
		"in this session":        {[]does{types("s")}, `allow=true session=true reason=""`, false},
		"always":                 {[]does{types("a"), sees("· saved in ~/")}, `allow=true session=true reason=""`, true},
		"no":                     {[]does{types("n")}, `allow=false session=false reason=""`, false},
		"Enter":                  {[]does{presses("enter")}, `allow=false session=false reason=""`, false},
		"the number":             {[]does{types("2")}, `allow=true session=true reason=""`, false},
		"a reason":               {[]does{types("r"), sees("why not: "), saying("use the mirror")}, `allow=false session=false reason="the user says: use the mirror"`, false},
		"a reason after all not": {[]does{types("r"), sees("why not: "), presses("esc"), sees("❯ 4. No"), types("y")}, `allow=true session=false reason=""`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			reach := pygenttest.Call("reach", reachIn{[]string{"example.com", "xn--e1afmkfd.example"}})
			p := sit(t, pygenttest.NewServer(t, reach, pygenttest.Text("I see.")), withQuestions, "HOME="+home)
			p.Type("go\n")
			p.Await("A command wants to reach", "example.com, xn--e1afmkfd.example (punycode: another script)",
				"1. Yes, until the current commands end (y)", "2. Yes, for this session (s)", "3. Always (saved in your configuration) (a)", "❯ 4. No (n)")
			for _, step := range tt.steps {
				step(p)
			}
			p.Await("I see.", "Ready")
			require.Equal(t, []string{tt.want}, results(p.leaves()))
			files, err := filepath.Glob(filepath.Join(home, ".*.toml"))
			require.NoError(t, err)
			require.Equal(t, tt.kept, len(files) == 1)
			if tt.kept {
				kept, err := os.ReadFile(files[0])
				require.NoError(t, err)
				require.Contains(t, string(kept), `"example.com"`)
			}
		})
	}
}

func TestAnswersToTheQuestionOfATool(t *testing.T) {
	colours := question{Prompt: "Which colour?", Options: []string{"red", "blue", "y"}}
	form := question{Prompt: "About the release:", Schema: json.RawMessage(`{"type":"object","properties":{` +
		`"count":{"type":"integer","description":"how many there are"},"name":{"type":"string"}},"required":["count"]}`)}
	for name, tt := range map[string]struct {
		question question
		steps    []does
		want     string
	}{
		"the selected option":   {colours, []does{presses("enter")}, "answer: red"},
		"an option by arrows":   {colours, []does{presses("down"), sees("❯ 2. blue"), presses("enter")}, "answer: blue"},
		"an option by number":   {colours, []does{types("3")}, "answer: y"},
		"a letter is no key":    {colours, []does{types("y"), sees("that key does not answer"), types("2")}, "answer: blue"},
		"something else":        {colours, []does{types("4"), sees("answer (or press Enter to skip): "), saying("green 日本")}, "answer: green 日本"},
		"nothing else":          {colours, []does{types("4"), sees("answer (or press Enter to skip): "), presses("enter")}, "declined"},
		"back to the options":   {colours, []does{types("4"), sees("answer (or press Enter to skip): "), presses("esc"), sees("❯ 1. red"), types("2")}, "answer: blue"},
		"a text":                {question{Prompt: "Your name?"}, []does{sees("Your name?"), saying("Ada")}, "answer: Ada"},
		"no text":               {question{Prompt: "Your name?"}, []does{presses("enter")}, "declined"},
		"a text that is erased": {question{Prompt: "Your name?"}, []does{typing("Adam"), presses("backspace"), saying("!")}, "answer: Ada!"},
		"a form": {form, []does{sees("About the release:", "how many there are"), saying("many"),
			sees("ask asks", "Not a valid integer.", "how many there are"), saying("3"), sees("ask asks", "name"), saying("one")}, `answer: {"count":3,"name":"one"}`},
		"a form in part":   {form, []does{saying("3"), sees("name"), presses("enter")}, `answer: {"count":3}`},
		"a form, declined": {form, []does{presses("enter")}, "declined"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := sit(t, pygenttest.NewServer(t, tt.question.call(), pygenttest.Text("I see.")), withQuestions)
			p.Type("go\n")
			p.Await("ask asks", tt.question.Prompt)
			for _, step := range tt.steps {
				step(p)
			}
			p.Await("I see.", "Ready")
			require.Equal(t, []string{tt.want}, results(p.leaves()))
		})
	}
}

// typing types a text and does not send it.
func typing(text string) does {
	return func(p *person) { p.reads(); p.Type(text); p.Await(text) }
}

// A secret is nowhere but in the answer: also not where a person looks for what was
// typed or presses keys that show and keep things.
func TestASecretIsNeverShownOrKept(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2"
	p := sit(t, pygenttest.NewServer(t, question{Prompt: "The password?", Secret: true}.call(), question{Prompt: "Again?", Secret: true}.call(), pygenttest.Text("I see.")), withQuestions)
	p.Type("go\n")
	p.Await("The password?", "answer (or press Enter to skip): ")
	p.reads()
	p.Type(secret)
	p.Await("answer (or press Enter to skip): " + strings.Repeat("•", len(secret)))
	p.Key("ctrl+r", "ctrl+g", "up", "enter")
	p.Await("Again?")
	p.reads()
	p.Paste(secret + "\n")
	p.Await(strings.Repeat("•", len(secret)))
	p.Key("ctrl+c") // it can be cleared
	p.AwaitNo("•")
	p.Paste(secret + "\n")
	p.Await(strings.Repeat("•", len(secret)))
	p.Key("enter")
	p.Await("I see.", "Ready")
	p.Key("ctrl+y") // brings back nothing
	p.Key("up")
	p.Await("› go")
	p.Key("ctrl+c")
	require.Equal(t, []string{"15 characters", "15 characters"}, results(p.leaves()))
	require.NotContains(t, p.All(), "hunter2")
	require.NotContains(t, string(p.Raw()), "hunter2")
	kept, err := os.ReadFile(filepath.Join(p.state, "pygent", "input-history.jsonl"))
	require.NoError(t, err)
	require.Contains(t, string(kept), "go")
	require.NotContains(t, string(kept), "hunter2")
}

// A question that comes while somebody types hides the draft, and gives it back with
// its pastes, its cursor and its undo.
func TestADraftOutlivesQuestions(t *testing.T) {
	long := strings.TrimSuffix(strings.Repeat("line\n", 20), "\n")
	for name, tt := range map[string]struct {
		question pygenttest.Reply
		asked    string // what is seen of the question
		answer   does
	}{
		"about a call": {bash("echo 42"), "Run this on your machine?", types("y")},
		"of a tool":    {question{Prompt: "Which?", Options: []string{"red"}}.call(), "Which?", types("1")},
		"a text":       {question{Prompt: "Which?"}.call(), "Which?", saying("red")},
		"of the model": {pygenttest.Call("continue", map[string]any{"prompt": "Which?", "options": []string{"red"}}), "? Which?", presses("enter")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			p := sit(t, pygenttest.NewServer(t, tt.question.WithGate(gate), pygenttest.Text("I see."), pygenttest.Text("And that.")), withQuestions)
			p.Type("go\n")
			p.Await("Waiting for")
			p.Type("see ")
			p.Paste(long)
			p.Type(" end")
			p.Await("› see [pasted 20 lines] end")
			p.Key("left", "left", "left")
			persontest.Give(t, gate)
			p.Await(tt.asked)
			p.AwaitNo("[pasted 20 lines]")
			tt.answer(p)
			p.Await("I see.", "Ready", "› see [pasted 20 lines] end")
			p.Type("b") // where the cursor was
			p.Await("› see [pasted 20 lines] bend")
			p.Key("enter")
			p.Await("And that.", "Ready")
			msgs := p.leaves()
			require.Equal(t, "see "+long+" bend", msgs[len(msgs)-2].Text())
		})
	}
}

// What somebody begins to type just when the model asks is seen, and sent only by an
// Enter after that.
func TestWhatIsTypedJustWhenTheModelAsksIsSeen(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t, pygenttest.Call("continue", map[string]any{"prompt": "Which?", "options": []string{"red"}}), pygenttest.Text("I see.")))
	p.Type("go\n")
	p.Await("? Which?", "1. red")
	p.Type("neither\n")
	p.Until("that it is not sent", func(s termtest.Screen) bool { // by a slow machine, because it came at once
		early := strings.Contains(s.Text(), "too early: typed before the question appeared") || strings.Contains(s.Text(), "pasted text does not answer")
		return early && strings.Contains(s.Text(), "› neither")
	})
	p.reads()
	require.Contains(t, p.Screen().Text(), "› neither", "it was not sent")
	p.Key("enter")
	p.Await("I see.", "Ready")
	msgs := p.leaves()
	require.Equal(t, "neither", msgs[len(msgs)-2].Text())
}

// Pastes answer no menu, and none that asks for a text before it listens.
func TestAPasteThatComesTooEarlyIsNoAnswer(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t, question{Prompt: "Your name?"}.call(), pygenttest.Text("I see.")), withQuestions)
	p.Type("go\n")
	p.Await("Your name?")
	p.Paste("early")
	late := false // because the machine is slow
	p.Until("what becomes of it", func(s termtest.Screen) bool {
		late = strings.Contains(s.Text(), answerHere+"early")
		return late || strings.Contains(s.Text(), "pasted text does not answer")
	})
	if late {
		p.Key("ctrl+c")
	}
	p.AwaitNo("early")
	p.reads()
	p.Paste("Ada\n")
	p.Await(answerHere + "Ada")
	p.Key("enter")
	p.Await("I see.", "Ready")
	require.Equal(t, []string{"answer: Ada"}, results(p.leaves()))
}

// menus are a question of each kind, with what is seen of it.
func menus() map[string]struct {
	call pygenttest.Reply
	seen string
} {
	return map[string]struct {
		call pygenttest.Reply
		seen string
	}{
		"about a command": {bash("echo 42"), "Run this on your machine?"},
		"about a change":  {pygenttest.Call("write_file", map[string]any{"path": "a.txt", "content": "one\n"}), "Change this file on your machine?"},
		"about hosts":     {pygenttest.Call("reach", reachIn{[]string{"example.com"}}), "A command wants to reach"},
		"options":         {question{Prompt: "Which?", Options: []string{"red"}}.call(), "Which?"},
		"a text":          {question{Prompt: "Which?"}.call(), "Which?"},
		"a secret":        {question{Prompt: "Which?", Secret: true}.call(), "Which?"},
	}
}

func TestCtrlCAndCtrlDAtEachKindOfMenu(t *testing.T) {
	for name, tt := range menus() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := sit(t, pygenttest.NewServer(t, tt.call, tt.call), withQuestions)
			p.Type("go\n")
			p.Await(tt.seen)
			p.reads()
			p.Key("ctrl+c")
			p.Await("■ Interrupted", "Ready")
			p.Type("again\n")
			p.Await(tt.seen)
			p.reads()
			p.Key("ctrl+d")
			for _, result := range results(p.left()) {
				require.Contains(t, result, "interrupted")
			}
		})
	}
}

func TestAPasteAtEachKindOfMenu(t *testing.T) {
	for name, tt := range menus() {
		if strings.HasPrefix(name, "a text") || strings.HasPrefix(name, "a secret") {
			continue // a paste is what they want
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := sit(t, pygenttest.NewServer(t, tt.call), withQuestions)
			p.Type("go\n")
			p.Await(tt.seen)
			p.reads()
			p.Paste("y\n1\n")
			p.Await("pasted text does not answer", tt.seen)
			p.reads()
			p.Key("ctrl+c")
			p.Await("■ Interrupted", "Ready")
			p.leaves()
		})
	}
}

// A question that nobody waits for any more is taken away, and the Enter for it does
// not send the draft.
func TestAQuestionIsWithdrawnWhileItIsShown(t *testing.T) {
	t.Parallel()
	dir, gate := t.TempDir(), make(chan struct{})
	p := sit(t, pygenttest.NewServer(t, question{Prompt: "Which?", Options: []string{"red"}, Until: "withdrawn"}.call().WithGate(gate), pygenttest.Text("I see."), pygenttest.Text("And that.")), withQuestions, "PYGENT_WORKSPACE="+dir)
	p.Type("go\n")
	p.Await("Waiting for")
	p.Type("half a dra")
	p.Await("› half a dra")
	persontest.Give(t, gate)
	p.Await("Which?", "❯ 1. red")
	p.reads()
	makes(t, dir, "withdrawn")
	p.Await("› half a dra")
	p.Key("enter")
	p.Await("the question was withdrawn")
	p.Await("I see.", "Ready", "› half a dra")
	p.Type("ft")
	p.Await("› half a draft")
	p.Key("enter")
	p.Await("And that.", "Ready")
	msgs := p.leaves()
	require.Equal(t, []string{"nobody answered"}, results(msgs))
	require.Equal(t, "half a draft", msgs[len(msgs)-2].Text())
}

// Questions of two tasks are answered one after another. Each says which task asks,
// also where there is hardly any room.
func TestTwoTasksAsk(t *testing.T) {
	t.Parallel()
	delegate := func(prompt string) pygenttest.Reply {
		return pygenttest.Call("delegate_task", map[string]any{"prompt": prompt})
	}
	heard := make(chan string, 2)
	work := pygenttest.Decide(func(req *pygent.ChatRequest) pygenttest.Reply {
		heard <- req.Messages[len(req.Messages)-1].Text()
		return pygenttest.Call("stop", map[string]any{"summary": "done"})
	})
	p := sit(t, pygenttest.NewServer(t, delegate("Count"), delegate("Sort"), pygenttest.Text("Begun.")).
		On("Count", bash("echo counted"), work).On("Sort", bash("echo sorted"), work))
	p.Type("go\n")
	left := map[string]string{"Count": "counted", "Sort": "sorted"}
	for len(left) > 0 {
		// The first answer may still be on the screen when the second question comes.
		var task, command string
		p.Until("the question of a task", func(s termtest.Screen) bool {
			for task, command = range left {
				if strings.Contains(s.Text(), "("+task+") asks: Run this on your machine?") {
					return true
				}
			}
			return false
		})
		delete(left, task)
		p.reads()
		id, _, _ := strings.Cut(p.lineWith("("+task+") asks"), " (")
		id = strings.TrimPrefix(strings.TrimSpace(id), "Task ")
		p.Resize(50, 5)
		p.Until("the task and its command in a low window", func(s termtest.Screen) bool {
			return strings.Contains(s.Text(), "● "+id+": ") && strings.Contains(s.Text(), "echo "+command) && !strings.Contains(s.Text(), "asks")
		})
		p.Resize(80, 24)
		p.Await("("+task+") asks: Run this on your machine?", "echo "+command)
		p.answers("y")
		require.Contains(t, persontest.Next(t, heard), command)
		p.Await("(" + task + ") · finished")
	}
	p.Await("Ready")
	p.leaves()
}

// lineWith returns the row of the screen that contains a text.
func (p *person) lineWith(text string) string {
	p.t.Helper()
	for _, line := range p.Screen().Lines {
		if strings.Contains(line, text) {
			return line
		}
	}
	p.t.Fatalf("no %q in\n%s", text, p.Screen().Text())
	return ""
}

// The question of a background task's tool says which task asks; Ctrl-C between
// turns declines it, a form as a whole.
func TestATaskAsksByAForm(t *testing.T) {
	t.Parallel()
	form := question{Prompt: "Which?", Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}`)}
	gate, heard := make(chan struct{}), make(chan string, 1)
	work := pygenttest.Decide(func(req *pygent.ChatRequest) pygenttest.Reply {
		heard <- req.Messages[len(req.Messages)-1].Text()
		return pygenttest.Call("stop", map[string]any{"summary": "done"})
	})
	delegate := pygenttest.Call("delegate_task", map[string]any{"prompt": "Count"})
	p := sit(t, pygenttest.NewServer(t, delegate, pygenttest.Text("Begun.")).On("Count", form.call().WithGate(gate), work), withQuestions)
	p.Type("go\n")
	p.Await("Begun.", "Ready", "(Count)")
	persontest.Give(t, gate)
	p.Await("(Count): ask asks", "Which?")
	p.says("first")
	p.Await("(Count): ask asks", "b (string")
	p.reads()
	p.Key("ctrl+c")
	require.Contains(t, persontest.Next(t, heard), "declined")
	p.Await("(Count) · finished", "Ready")
	p.leaves()
}

// The word about a paste is read in a narrow window, whatever else the line says.
func TestAWordAboutAKeyComesBeforeTheFacts(t *testing.T) {
	t.Parallel()
	ask := pygenttest.Call("continue", map[string]any{"prompt": "Which one?", "options": []string{"a", "b"}})
	p := sit(t, pygenttest.NewServer(t, ask), "PYGENT_MODEL=a-model-with-a-long-name")
	p.Type("go\n")
	p.Await("? Which one?", "Ready · arrows and Enter, or type an answer · a-model-with")
	p.Send("one\rtwo\r") // a paste that the terminal does not mark
	p.Await("Ready · pasted text does not answer; press Enter · arrows")
	p.Key("ctrl+c")
	p.leaves()
}

// The key v prints all of a change, with long lines as they are, and all arguments.
func TestAllOfACallIsPrintedOnRequest(t *testing.T) {
	long := strings.Repeat("0123456789", 50) + "Ω"
	var lines []string
	for i := range 60 {
		lines = append(lines, fmt.Sprintf("all of line %d", i))
	}
	for name, tt := range map[string]struct {
		call pygenttest.Reply
		seen string
		want []string
	}{
		"a change":  {pygenttest.Call("write_file", map[string]any{"path": "a.txt", "content": strings.Join(lines, "\n") + "\n" + long + "\n"}), "Change this file on your machine?", []string{"a.txt", "+ all of line 0\n", "│ all of line 59\n", "Ω"}},
		"arguments": {pygenttest.Call("deploy", deployIn{"here", append(lines, long)}), "Allow this call of deploy on your machine?", []string{"│ where: here\n", `"all of line 0",`, `"all of line 59",`, "Ω"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := sit(t, pygenttest.NewServer(t, tt.call, pygenttest.Text("I see.")), withQuestions)
			p.Type("go\n")
			p.Await(tt.seen, showsAll)
			for page := 1; !strings.Contains(p.All(), fmt.Sprintf("page %d of %d", page-1, page-1)); page++ {
				p.answers("v")
				p.Until("the page", func(termtest.Screen) bool { return strings.Contains(p.All(), fmt.Sprintf("page %d of", page)) })
			}
			for _, want := range tt.want {
				p.Until(want, func(termtest.Screen) bool { return strings.Contains(p.All(), want) })
			}
			p.Type("n")
			p.Await("I see.", "Ready")
			require.Equal(t, []string{"error: denied by the user"}, results(p.leaves()))
		})
	}
}

// Answers and options are read to their end in a narrow window, and the selected one
// is in sight in a low one.
func TestAnswersAreReadInSmallWindows(t *testing.T) {
	t.Parallel()
	var options []string
	for i := range 12 {
		options = append(options, fmt.Sprintf("option %d of twelve, which has more words than a narrow window is wide, end%d", i, i))
	}
	p := sit(t, pygenttest.NewServer(t, bash("echo $((6*7))"), question{Prompt: "Which one?", Options: options}.call(), pygenttest.Text("I see.")), withQuestions)
	p.Resize(30, 24)
	p.Type("go\n")
	p.Await("Run this on your", "2. Allow this exact", "     command for this session\n     (a)\n", "❯ 3. No (n)")
	p.answers("y")
	p.Await("Which one?", "end0")
	p.reads()
	p.Resize(40, 10)
	p.Key("up", "up")
	p.Await("Which one?", "❯ 12. option 11", "end11")
	p.Key("enter")
	p.Await("I see.")
	require.Contains(t, results(p.leaves())[1], "end11")
}

// A task's question comes before the one that the model ended its turn with. What was
// typed for that stays.
func TestATaskAsksWhileTheModelAsks(t *testing.T) {
	t.Parallel()
	gate, heard := make(chan struct{}), make(chan string, 1)
	work := pygenttest.Decide(func(req *pygent.ChatRequest) pygenttest.Reply {
		heard <- req.Messages[len(req.Messages)-1].Text()
		return pygenttest.Call("stop", map[string]any{"summary": "done"})
	})
	p := sit(t, pygenttest.NewServer(t, pygenttest.Call("delegate_task", map[string]any{"prompt": "Count"}),
		pygenttest.Call("continue", map[string]any{"prompt": "Which?", "options": []string{"red"}}), pygenttest.Text("I see.")).
		On("Count", bash("echo counted").WithGate(gate), work))
	p.Type("go\n")
	p.Await("? Which?", "1. red")
	p.reads()
	p.Type("bl")
	p.Await("› bl")
	persontest.Give(t, gate)
	p.Await("(Count) asks: Run this on your machine?", "1 other question after this")
	p.answers("y")
	require.Contains(t, persontest.Next(t, heard), "counted")
	p.Await("1. red", "› bl")
	p.reads()
	p.Type("ue")
	p.Await("› blue")
	p.pauses()
	p.Key("enter")
	p.Until("the answer and the end of the task", func(termtest.Screen) bool {
		return strings.Contains(p.All(), "I see.") && strings.Contains(p.All(), "(Count) · finished")
	})
	p.leaves()
}
