// Package pygenttest provides stand-ins for language models, for tests of
// programs that use pygent, as net/http/httptest provides servers. Nothing in
// it needs a key or a network.
//
// # A model in the process
//
// A [ScriptedModel] gives the replies of a script, one for each request. It is
// the right choice for most tests:
//
//	model := pygenttest.NewScriptedModel(
//		pygenttest.Call("bash", map[string]any{"cmd": "go test ./..."}),
//		pygenttest.TextAndCalls("All green.", pygenttest.Call("stop", nil)),
//	)
//	agent, err := pygent.New(pygent.WithModel(model))
//
// The model streams its text in small pieces, numbers its tool calls "call_1",
// "call_2" and so on, and records its requests for a test to inspect:
//
//	messages := model.Requests()[1].Messages
//	result := messages[len(messages)-1] // what bash printed
//	err := pygenttest.CheckConversation(messages)
//
// A request after the end of the script fails with [ErrScriptEnded], unless Loop
// or RepeatLast was called. [Func] and [Decide] make a reply from the request.
// If agents delegate to others, On gives each conversation a script of its own,
// which is found by a text in its first messages:
//
//	model.On("Write the tests", pygenttest.Call("bash", …), pygenttest.Call("stop", nil))
//
// # A model behind HTTP
//
// A [Server] gives the same replies on a loopback port, over OpenAI's chat
// completions API and Responses API. Its clients are openai.Model, a
// program under test, or any other client. It records the requests byte for
// byte, and refuses with OpenAI's messages what OpenAI refuses, such as a schema
// without properties or a tool call without a result. With [Server.Strict] it
// also refuses what Gemini, Mistral, Ollama or the template of Gemma refuse.
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
// A reply can wait on a channel as well as on a clock, so that a test controls
// the order of events without sleeping: hold a reply back with WithGate, call
// WaitRequests to learn that it was requested, then cancel, close or open the
// gate. In a bubble of testing/synctest a ScriptedModel's delays take no time.
//
// Servers that claim to be compatible with OpenAI often differ in details. A
// [Quirk] makes any message wrong in the same way:
//
//	for _, quirk := range pygenttest.WireQuirks() {
//		server.Add(pygenttest.Call("bash", args).WithQuirks(quirk))
//	}
package pygenttest
