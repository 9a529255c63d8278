// Package chat has what an agent and its model say to each other: messages, requests and
// answers of a model, and the histories that keep conversations. It needs no agent.
//
// A [Message] has the JSON of OpenAI's chat completions API. A [History] is the record of a
// conversation in memory, in a file ([OpenHistory]) or in a store of the program's own
// ([LoadHistory]). Beside the messages, its entries tell what is known of them: how a call
// ended, where a run ended, and the marks of compactions and rewinds.
//
// Package pygent has the same types as Message, Part, ToolCall, ChatRequest, ChatResponse,
// Delta, Usage, History, Status, Outcome, APIError, BashResult and HostUse.
package chat
