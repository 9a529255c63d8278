package strict

import "net/http"

// Gemma checks a request for a chat completion as the chat template of a Gemma without a
// system role does, in llama.cpp and vLLM (vllm-project/vllm#2964, huggingface/chat-ui#1386).
func Gemma(r Request) *Refusal {
	for _, message := range list(r.fields["messages"]) {
		if m, ok := message.(object); ok && text(m["role"]) == "system" {
			return &Refusal{Status: http.StatusBadRequest, Type: "BadRequestError", Message: "System role not supported"}
		}
	}
	return nil
}
