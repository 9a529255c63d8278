// Package pygenttest provides stand-ins for language models, for tests of
// programs that use pygent, as net/http/httptest provides servers. Nothing in
// it needs a key or a network.
//
// # A model in the process
//
// A [ScriptedModel] gives the replies of a script, one a request. It is the
// one to use in most tests:
//
//	model := pygenttest.NewScriptedModel(
//		pygenttest.Call("bash", map[string]any{"cmd": "go test ./..."}),
//		pygenttest.TextAndCalls("All green.", pygenttest.Call("stop", nil)),
//	)
//	agent, err := pygent.New(pygent.WithModel(model))
//
// The model streams its text in small pieces, numbers its tool calls "call_1",
// "call_2" and so on, and records what it was asked, for a test to look at:
//
//	messages := model.Requests()[1].Messages
//	result := messages[len(messages)-1] // what bash printed
//	err := pygenttest.CheckConversation(messages)
//
// When the script ends, the next request fails with [ErrScriptEnded], unless
// Loop or RepeatLast was called. [Func] and [Decide] work a reply out from the
// request. Where agents delegate to others, On gives each conversation a
// script of its own, found by what its first messages say:
//
//	model.On("Write the tests", pygenttest.Call("bash", …), pygenttest.Call("stop", nil))
//
// # A model behind HTTP
//
// A [Server] gives the same replies over OpenAI's chat completions API on a
// loopback port, to [pygent.OpenAIModel], to a program under test, or to any
// other client, and over the Responses API. It records the requests byte for
// byte, and refuses in OpenAI's words what OpenAI refuses, such as a schema
// without properties or a tool call without a result. With [Server.Strict] it
// also refuses what Gemini, Mistral or Ollama refuse.
//
//	server := pygenttest.NewServer(t, pygenttest.Text("Hello!"))
//	cmd := exec.CommandContext(ctx, "pygent", "run", "--no-docker", "Say hello")
//	cmd.Env = append(os.Environ(), server.Env()...)
//
// Outside of a test function, use [Start] and Close. In a TestMain:
//
//	func TestMain(m *testing.M) {
//		server, err := pygenttest.Start(pygenttest.Text("Hello!"))
//		if err != nil {
//			log.Fatal(err)
//		}
//		baseURL = server.URL()
//		code := m.Run()
//		server.Close()
//		os.Exit(code)
//	}
//
// And as a program of its own, to try a client by hand:
//
//	func main() {
//		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
//		defer stop()
//		server, err := pygenttest.Start(pygenttest.Text("Hello!"))
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer server.Close()
//		fmt.Println("export", strings.Join(server.RepeatLast().Env(), " "))
//		<-ctx.Done()
//	}
//
// # Things that go wrong
//
// The errors and faults of real services are replies like any other. A
// ScriptedModel returns the [pygent.APIError] that a client would make of
// them; a Server sends them:
//
//	pygenttest.RateLimited(2 * time.Second) // status 429 with Retry-After
//	pygenttest.Status(500, "server_error", "Oops")
//	pygenttest.Text("Half a").CutAfter(1)   // the connection breaks off
//	pygenttest.Text("Half a").FailAfter(1, "server_error", "Oops")
//	pygenttest.Text("Late").WithDelay(time.Minute)
//	pygenttest.Text("").WithGate(nil)       // the server hangs
//	pygenttest.HTML(502)                    // a proxy's error page
//	pygenttest.SSE(`{"choices":[]}`)        // exactly these events
//
// Replies wait on channels as well as on clocks, so that a test decides what
// happens first without sleeping: hold a reply back WithGate, learn by
// WaitRequests that it was asked for, then cancel, close or let it go. In a
// bubble of testing/synctest a ScriptedModel's delays take no time.
//
// Servers that call themselves compatible with OpenAI are so to a degree. A
// [Quirk] replays what they get wrong on top of any message:
//
//	for _, quirk := range pygenttest.WireQuirks() {
//		server.Add(pygenttest.Call("bash", args).WithQuirks(quirk))
//	}
package pygenttest
