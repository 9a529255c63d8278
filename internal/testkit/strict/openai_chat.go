package strict

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
)

// chatFields are the parameters of a chat completion in OpenAI's reference.
var chatFields = []string{
	"audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs", "max_completion_tokens",
	"max_tokens", "messages", "metadata", "modalities", "model", "moderation", "n", "parallel_tool_calls", "prediction",
	"presence_penalty", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning_effort",
	"response_format", "safety_identifier", "seed", "service_tier", "stop", "store", "stream", "stream_options",
	"temperature", "tool_choice", "tools", "top_logprobs", "top_p", "user", "verbosity", "web_search_options",
}

// messageFields has the fields of a message for each role.
var messageFields = map[string][]string{
	"system":    {"content", "name"},
	"developer": {"content", "name"},
	"user":      {"content", "name"},
	"assistant": {"content", "name", "refusal", "annotations", "audio", "function_call", "tool_calls"},
	"tool":      {"content", "name", "tool_call_id"},
	"function":  {"content", "name"},
}

// OpenAIChat checks a request for a chat completion as OpenAI does.
func OpenAIChat(r Request) *Refusal {
	return first(
		func() *Refusal { return unknown("", r.without(r.fields), chatFields...) },
		r.modelGiven,
		r.chatModel,
		r.chatParameters,
		func() *Refusal { return r.toolList(chatTool) },
		r.messages,
		r.order,
	)
}

func (r Request) modelGiven() *Refusal {
	if text(r.fields["model"]) == "" {
		return refuse("", "", "you must provide a model parameter")
	}
	return nil
}

// chatParameters checks the parameters that exclude or require one another
// (langchain-ai/langgraph#5943).
func (r Request) chatParameters() *Refusal {
	switch {
	case has(r.fields, "stream_options") && r.fields["stream"] != true:
		return refuse("stream_options", "", "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
	case has(r.fields, "max_tokens") && has(r.fields, "max_completion_tokens"):
		return refuse("max_tokens", "invalid_parameter_combination",
			"Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
	}
	return nil
}

// messages checks each message by itself.
func (r Request) messages() *Refusal {
	if !has(r.fields, "messages") {
		return missing("messages")
	}
	messages, ok := r.fields["messages"].([]any)
	if !ok {
		return wrongType("messages", "an array of objects", r.fields["messages"])
	}
	if len(messages) == 0 {
		return emptyArray("messages")
	}
	for i, m := range messages {
		at := fmt.Sprintf("messages[%d]", i)
		o, ok := m.(object)
		if !ok {
			return wrongType(at, "an object", m)
		}
		if found := r.message(at, i, o); found != nil {
			return found
		}
	}
	return nil
}

func (r Request) message(at string, i int, m object) *Refusal {
	role := text(m["role"])
	fields, ok := messageFields[role]
	switch {
	case !has(m, "role"):
		return missing(at + ".role")
	case !ok:
		return refuse(at+".role", "invalid_value",
			"Invalid value: '%v'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.", m["role"])
	}
	return first(
		func() *Refusal { return unknown(at+".", r.without(m), append([]string{"role"}, fields...)...) },
		func() *Refusal { return r.toolCalls(at, m) },
		func() *Refusal { return chatContent(at, i, role, m) },
	)
}

// chatContent checks a message's content. It may be null only if the message has
// calls (run-llama/llama_index#17921), and only users may send images
// (dreadnode/rigging#41).
func chatContent(at string, i int, role string, m object) *Refusal {
	switch content := m["content"].(type) {
	case nil:
		if role == "assistant" && (has(m, "tool_calls") || has(m, "function_call") || has(m, "audio") || has(m, "refusal")) {
			return nil
		}
		return refuse(fmt.Sprintf("messages.[%d].content", i), "", "Invalid value for 'content': expected a string, got null.")
	case string:
		return nil
	case []any:
		if len(content) == 0 {
			return emptyArray(at + ".content")
		}
		for j, part := range content {
			if found := chatPart(at, fmt.Sprintf("%s.content[%d]", at, j), role, obj(part)); found != nil {
				return found
			}
		}
		return nil
	}
	return wrongType(at+".content", "one of a string or array of objects", m["content"])
}

func chatPart(message, at, role string, part object) *Refusal {
	switch kind := text(part["type"]); {
	case kind == "":
		return missing(at + ".type")
	case kind == "text":
		if _, ok := part["text"].(string); !ok {
			return missing(at + ".text")
		}
		return nil
	case kind == "image_url" && role != "user":
		return refuse(message, "invalid_value",
			"Invalid '%s'. Image URLs are only allowed for messages with role 'user', but this message with role '%s' contains an image URL.", message, role)
	case kind == "image_url":
		return chatImage(at+".image_url", part["image_url"])
	case kind == "file" && role == "user":
		return chatFile(at+".file", part["file"])
	case kind == "input_audio" && role == "user":
		return chatAudio(at+".input_audio", part["input_audio"])
	case kind == "refusal" && role == "assistant":
		return nil
	default:
		return refuse(at+".type", "invalid_value",
			"Invalid value: '%s'. Supported values are: 'text', 'image_url', 'input_audio', 'refusal', 'audio', and 'file'.", kind)
	}
}

// chatAudio checks a recording, which is in base64 without the head of a data
// URL (Mirascope/mirascope#1459).
func chatAudio(param string, audio any) *Refusal {
	o, ok := audio.(object)
	if !ok {
		return wrongType(param, "an object", audio)
	}
	if format := text(o["format"]); format != "wav" && format != "mp3" {
		return refuse(param+".format", "invalid_value", "Invalid value: '%s'. Supported values are: 'wav' and 'mp3'.", format)
	}
	if data := text(o["data"]); data == "" || !isBase64(data) {
		return refuse(param+".data", "invalid_value", "The audio data is not valid base64.")
	}
	return nil
}

func isBase64(data string) bool {
	_, err := base64.StdEncoding.DecodeString(data)
	return err == nil
}

// chatFile checks a file (trpc-group/trpc-agent-go#1816, vercel/ai#7266).
func chatFile(param string, file any) *Refusal {
	const expected = "Invalid file data: '%s'. Expected a base64-encoded data URL with an application/pdf MIME type " +
		"(e.g. 'data:application/pdf;base64,SGVsbG8sIFdvcmxkIQ=='), but got "
	o, ok := file.(object)
	switch {
	case !ok:
		return wrongType(param, "an object", file)
	case has(o, "file_id"):
		return nil
	case !has(o, "file_data"):
		return missing(param + ".file_id")
	}
	param += ".file_data"
	media, isPDF := fileURL(text(o["file_data"]))
	switch {
	case media == "":
		return refuse(param, "invalid_value", expected+"an invalid base64-encoded value.", param)
	case !isPDF:
		return refuse(param, "invalid_value", expected+"unsupported MIME type '%s'.", param, media)
	}
	return nil
}

// fileURL returns the media type of a data URL, which is empty if its data is
// not in base64.
func fileURL(url string) (media string, isPDF bool) {
	head, data, _ := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
	if _, err := base64.StdEncoding.DecodeString(data); err != nil || data == "" || !strings.HasPrefix(url, "data:") {
		return "", false
	}
	return head, head == "application/pdf"
}

func chatImage(param string, image any) *Refusal {
	o, ok := image.(object)
	if !ok {
		return wrongType(param, "an object", image)
	}
	return imageURL(param+".url", text(o["url"]))
}

// imageURL checks the URL of an image (CosmosShadow/gptpdf#6).
func imageURL(param, url string) *Refusal {
	media, isData := strings.CutPrefix(url, "data:")
	switch {
	case url == "":
		return missing(param)
	case !isData && !strings.HasPrefix(url, "http"):
		return refuse(param, "invalid_value", "Invalid '%s'. Expected a valid URL, but got a value with an invalid format.", param)
	case !isData:
		return nil
	}
	media, _, _ = strings.Cut(media, ";")
	if !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, media) {
		return refuse("", "sanitizer_server_error",
			"You uploaded an unsupported image. Please make sure your image is below 20 MB in size and is of one the following formats: ['png', 'jpeg', 'gif', 'webp'].")
	}
	return nil
}
