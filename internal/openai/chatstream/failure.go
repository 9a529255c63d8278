package chatstream

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/x/pygent/internal/jsonobj"
)

// saysError reports whether a chunk without choices reports an error, in the form of one
// of the providers that answer it with status 200: see docs/providers.md.
func (c *chunk) saysError(data []byte) bool {
	if jsonobj.Text(c.object) == "error" || jsonobj.Text(c.kind) == "error" {
		return true
	}
	for name, raw := range jsonobj.Members(data) {
		switch string(name) {
		case "base_resp": // MiniMax, which sends it with each answer
			if code, ok := statusCode(raw); ok && code != 0 {
				return true
			}
		case "success":
			if string(raw) == "false" {
				return true
			}
		case "detail", "error_msg", "error_message", "errors", "status_msg": // FastAPI, Baidu, Cloudflare, gateways
			if present(raw) && string(raw) != `""` && string(raw) != "[]" {
				return true
			}
		case "message", "msg": // with a code, or alone
			if words := strings.ToLower(jsonobj.Text(raw)); words != "" && words != "success" && words != "ok" && !present(c.id) {
				return true
			}
		case "prompt_filter_results", "promptFeedback": // Azure, Gemini: the prompt was blocked
			if len(BlockedBy(raw)) > 0 {
				return true
			}
		}
	}
	return false
}

func statusCode(raw json.RawMessage) (code int, ok bool) {
	for name, value := range jsonobj.Members(raw) {
		if string(name) == "status_code" {
			return jsonobj.Int(value)
		}
	}
	return 0, false
}

// BlockedBy returns the names of the filters that blocked a prompt: those objects in raw
// that say "filtered": true, or a "blockReason".
func BlockedBy(raw json.RawMessage) (names []string) {
	for e := range jsonobj.Elements(raw) {
		names = append(names, BlockedBy(e)...)
	}
	for name, value := range jsonobj.Members(raw) {
		if string(name) == "blockReason" && present(value) {
			names = append(names, strings.ToLower(jsonobj.Text(value)))
		}
		for inner, is := range jsonobj.Members(value) {
			if string(inner) == "filtered" && string(is) == "true" {
				names = append(names, string(name))
			}
		}
		if jsonobj.BeginsObject(value) || jsonobj.BeginsArray(value) {
			names = append(names, BlockedBy(value)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
