package openai

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/x/pygent/internal/jsonobj"
)

// media is a set of kinds of content besides text.
type media uint8

const (
	images media = 1 << iota
	files
	recordings
)

// String names a single kind.
func (k media) String() string {
	return map[media]string{images: "image", files: "file", recordings: "recording"}[k]
}

// mediaOf returns the kind of a part of a message; 0 for text.
func mediaOf(part json.RawMessage) media {
	for name, value := range jsonobj.Members(part) {
		switch {
		case string(name) == "image_url" && imageOf(part) != "":
			return images
		case string(name) == "file" && value[0] == '{':
			return files
		case string(name) == "input_audio" && value[0] == '{':
			return recordings
		}
	}
	return 0
}

// The words in which servers refuse a kind of content.
type refusal struct {
	kind   media
	never  []string // the model takes none
	broken []string // it does not take one of those in the request
}

// refusals are in the words of OpenAI, Azure, OpenRouter, DeepSeek, vLLM,
// llama.cpp, Ollama, Groq, Mistral, DashScope and Gemini. Recordings and files
// come first, because their refusals may name images as what is taken.
//
// Sources: mozilla-ai/llamafile#960, ggml-org/llama.cpp#20337,
// langchain-ai/openwiki#63, vllm-project/vllm#47051, QwenLM/qwen-code#1888,
// google-gemini/deprecated-generative-ai-js#201, openai/openai-python#2454,
// TutoriaLLM/TutoriaLLM#370, vercel/ai#7266.
var refusals = []refusal{
	{
		recordings,
		[]string{
			"audio input", "input audio", "support audio", "content_type_audio", "audio content", "audio is not", "audio mime",
			`of type "input_audio"`, "part type: input_audio", "part type: 'input_audio'", "invalid value: 'input_audio'", "invalid value: input_audio",
			"unknown variant `input_audio`",
		},
		[]string{"audio file", "audio data", "invalid audio", "decode audio", "unsupported audio", "audio format"},
	},
	{
		files,
		[]string{
			"file content", "file input", "support file", "support pdf", "pdf input", "files are not supported", "input_file",
			"part type: file", "part type: 'file'", "invalid value: 'file'", "invalid value: file", "unknown variant `file`",
			"mime type: application/pdf",
		},
		[]string{"file data", "invalid file", "file type", "pdf", "file too large", "file is too large"},
	},
	{
		images,
		[]string{
			"image_url", "image input", "support image", "images are not supported", "image(s) may be provided",
			"image content", "input_image", "support vision", "vision is not", "mmproj", "accept image",
		},
		[]string{"invalid image", "image data", "process image", "decode image", "image format", "unsupported image", "image too large"},
	},
}

// textOnly tells that a server takes text alone, or nothing besides images.
var textOnly = []string{"content must be a string", "multimodal", "unsupported content[].type", "either text or image_url", "'image_url' or 'text'"}

// rejectsMedia returns the kind of content in the request that the error is
// about, and whether the model will take none of that kind at all.
func (c *call) rejectsMedia(api *Error) (rejected media, always bool) {
	var sent media
	for i := range c.req.Messages.Len() {
		sent |= c.req.Messages.At(i).media
	}
	sent &^= c.adaptation.left
	if sent == 0 || api.Status < 400 || api.Status == http.StatusTooManyRequests {
		return 0, false
	}
	message := strings.ToLower(api.Message)
	says := func(phrase string) bool { return strings.Contains(message, phrase) }
	for _, r := range refusals {
		switch {
		case sent&r.kind == 0:
		case r.kind == images && slices.ContainsFunc(r.broken, says):
			return r.kind, false
		case slices.ContainsFunc(r.never, says), slices.ContainsFunc(textOnly, says):
			return r.kind, true
		case slices.ContainsFunc(r.broken, says):
			return r.kind, false
		}
	}
	return 0, false
}

// leftOut stands for content in requests to a model that does not take it.
func leftOut(part json.RawMessage, kind media) string {
	name := ""
	if kind == files {
		name = jsonobj.Text(memberOf(memberOf(part, "file"), "filename"))
	}
	if name != "" {
		name = " " + name
	}
	return "[" + kind.String() + name + " left out: the model does not accept " + kind.String() + "s]"
}

// withoutMedia returns a content with a text in place of each part of the given
// kinds. If only text remains, it is a single string, for servers that do not
// know parts.
func withoutMedia(content json.RawMessage, left media) any {
	var parts []any
	var texts []string
	for part := range jsonobj.Elements(content) {
		text := jsonobj.Text(memberOf(part, "text"))
		kind := mediaOf(part)
		switch {
		case kind&left != 0:
			text = leftOut(part, kind)
			parts = append(parts, textPart{"text", text})
		case text == "" && jsonobj.Text(memberOf(part, "type")) != "text":
			parts = append(parts, part)
			continue
		default:
			parts = append(parts, part)
		}
		texts = append(texts, text)
	}
	if len(texts) < len(parts) {
		return parts
	}
	return strings.Join(texts, "\n")
}

type textPart struct {
	Type string `json:"type"`
	Text string `json:"text"`
}
