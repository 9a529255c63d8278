// Package pygent is an embeddable coding agent whose commands run in an
// isolated Docker container.
//
// An [Agent] is a conversation with a language model that can run tools. It
// sends what the user says to a [Model], runs the tools that the model calls
// in a [Runtime], hands the results back, and goes on until the work is done:
//
//	agent, err := pygent.New() // OPENAI_API_KEY, or OPENAI_BASE_URL
//	if err != nil {
//		return err
//	}
//	defer agent.Close()
//	result, err := agent.RunUntilStop(ctx, "Make the tests pass.")
//
// # Parts
//
//   - [Agent] holds the conversation, the loop, its limits and approvals.
//     [Agent.Step] makes one pass, [Agent.RunUntilStop] goes on to the end,
//     [Agent.Events] is the same as an iterator, and [Agent.RunInteractive]
//     talks with a person. All of them are one loop.
//   - [Runtime] is a workspace, and commands run in it: in a container, on
//     this machine, or wherever your own implementation runs them.
//   - [Model] answers a conversation. [OpenAIModel] speaks to every server
//     with OpenAI's chat completions or Responses API. Plug in another with
//     [WithModel] or [SetDefaultModel].
//   - [Tool] is something the model can call. Add yours with [RegisterTool],
//     or typed with [NewTool].
//   - [TaskManager] has background agents work on tasks, each in a workspace of
//     its own. Models delegate to it by tools.
//   - [History] is the conversation, in memory or in a file.
//   - [Config] is what files and environment variables say.
//
// # Promises
//
// Every tool call gets exactly one result, whatever happens, so that the
// history is always a conversation that any provider accepts. Only model calls
// are ever repeated, never tools. Steps, tool calls and the time of a command
// are bounded by default. Cancelling a context stops the model call or the
// command in flight, with its processes. No panic of code that an agent is given,
// be it a tool, a model or an event handler, crosses the API, and none of it is
// waited for without end once its context has ended. Nothing prints: what happens
// is told by events ([OnEvent]) and a logger ([WithLogger]). Keys never
// reach the history, the logs, the events or the container.
//
// Package pygenttest helps to test programs that use this one.
package pygent
