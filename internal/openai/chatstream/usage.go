package chatstream

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode"

	"github.com/x/pygent/internal/jsonobj"
)

// Usage counts tokens. Zero means not reported.
type Usage struct {
	Prompt     int64
	Completion int64
	Cached     int64 // part of Prompt
	CacheWrite int64 // part of Prompt
	Reasoning  int64 // part of Completion

	Cost *float64 // what the provider says that the tokens cost; nil if it says nothing

	total int64 // as the server counts
}

// wireUsage is the usage as servers report it: in the names of chat completions
// or of the Responses API, and in those of some servers.
type wireUsage struct {
	Prompt         float64 `json:"prompt_tokens"`
	Completion     float64 `json:"completion_tokens"`
	Input          float64 `json:"input_tokens"`
	Output         float64 `json:"output_tokens"`
	Total          float64 `json:"total_tokens"`
	OfPrompt       details `json:"prompt_tokens_details"`
	OfInput        details `json:"input_tokens_details"`
	OfCompletion   details `json:"completion_tokens_details"`
	OfOutput       details `json:"output_tokens_details"`
	Cached         float64 `json:"cached_tokens"`               // Moonshot
	CacheHit       float64 `json:"prompt_cache_hit_tokens"`     // DeepSeek
	CacheRead      float64 `json:"cache_read_input_tokens"`     // gateways to Anthropic's models
	CacheCreation  float64 `json:"cache_creation_input_tokens"` // the same
	Cost           cost    `json:"cost"`                        // OpenRouter, Perplexity
	OwnKey         bool    `json:"is_byok"`                     // OpenRouter: the upstream provider charges the user as well
	UpstreamCharge struct {
		Cost cost `json:"upstream_inference_cost"`
	} `json:"cost_details"`
}

type details struct {
	Cached        float64 `json:"cached_tokens"`
	CacheWrite    float64 `json:"cache_write_tokens"`    // OpenAI, OpenRouter
	CacheCreation float64 `json:"cache_creation_tokens"` // LiteLLM
	Reasoning     float64 `json:"reasoning_tokens"`
}

// readUsage reads a usage as encoding/json does, but quicker, since each answer has
// one. A field of a wrong type stays zero; the others are still read.
func readUsage(raw json.RawMessage) (u wireUsage) {
	if bytes.ContainsFunc(raw, mayFold) {
		_ = json.Unmarshal(raw, &u)
		return u
	}
	for name, value := range jsonobj.Members(raw) {
		switch string(name) {
		case "prompt_tokens":
			setNumber(&u.Prompt, value)
		case "completion_tokens":
			setNumber(&u.Completion, value)
		case "input_tokens":
			setNumber(&u.Input, value)
		case "output_tokens":
			setNumber(&u.Output, value)
		case "total_tokens":
			setNumber(&u.Total, value)
		case "prompt_tokens_details":
			u.OfPrompt.read(value)
		case "input_tokens_details":
			u.OfInput.read(value)
		case "completion_tokens_details":
			u.OfCompletion.read(value)
		case "output_tokens_details":
			u.OfOutput.read(value)
		case "cached_tokens":
			setNumber(&u.Cached, value)
		case "prompt_cache_hit_tokens":
			setNumber(&u.CacheHit, value)
		case "cache_read_input_tokens":
			setNumber(&u.CacheRead, value)
		case "cache_creation_input_tokens":
			setNumber(&u.CacheCreation, value)
		case "cost":
			_ = u.Cost.UnmarshalJSON(value)
		case "is_byok":
			_ = json.Unmarshal(value, &u.OwnKey)
		case "cost_details":
			_ = json.Unmarshal(value, &u.UpstreamCharge)
		}
	}
	return u
}

// mayFold reports whether a character may be part of a name that encoding/json takes
// for one of ours although it is spelled otherwise.
func mayFold(r rune) bool { return r >= 'A' && r <= 'Z' || r == '\\' || r > unicode.MaxASCII }

func (d *details) read(raw json.RawMessage) {
	for name, value := range jsonobj.Members(raw) {
		switch string(name) {
		case "cached_tokens":
			setNumber(&d.Cached, value)
		case "cache_write_tokens":
			setNumber(&d.CacheWrite, value)
		case "cache_creation_tokens":
			setNumber(&d.CacheCreation, value)
		case "reasoning_tokens":
			setNumber(&d.Reasoning, value)
		}
	}
}

// setNumber sets a count to the number that raw holds, if it holds one.
func setNumber(count *float64, raw json.RawMessage) {
	if raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return
	}
	if n, err := strconv.ParseFloat(string(raw), 64); err == nil {
		*count = n
	}
}

// UsageIn returns the usage that raw reports.
func UsageIn(raw json.RawMessage) Usage {
	var u Usage
	u.update(raw)
	return u.settled()
}

// update takes over the counts in raw, which are totals and not additions. A
// count of zero leaves the earlier one, since some servers report the prompt
// first and the completion last.
func (u *Usage) update(raw json.RawMessage) {
	if !present(raw) {
		return
	}
	in := readUsage(raw)
	latest(&u.Prompt, in.Input, in.Prompt)
	latest(&u.Completion, in.Output, in.Completion)
	latest(&u.total, in.Total)
	latest(&u.Cached, in.CacheRead, in.CacheHit, in.Cached, in.OfInput.Cached, in.OfPrompt.Cached)
	latest(&u.CacheWrite, in.CacheCreation, in.OfInput.CacheWrite, in.OfPrompt.CacheCreation, in.OfPrompt.CacheWrite)
	latest(&u.Reasoning, in.OfOutput.Reasoning, in.OfCompletion.Reasoning)
	if said := in.Cost.amount; said != nil {
		sum := *said
		if charge := in.UpstreamCharge.Cost.amount; in.OwnKey && charge != nil {
			sum += *charge
		}
		u.Cost = &sum
	}
}

// settled returns the usage with all tokens that the total has. Gemini and xAI
// leave the reasoning out of the completion, and some gateways leave what was
// cached out of the prompt.
func (u Usage) settled() Usage {
	left := u.total - u.Prompt - u.Completion
	switch {
	case left <= 0 || u.Prompt == 0:
	case left == u.Cached+u.CacheWrite:
		u.Prompt += left
	default:
		u.Completion += left
		u.Reasoning = max(u.Reasoning, left)
	}
	u.total = 0
	u.Cached = min(u.Cached, u.Prompt)
	u.CacheWrite = min(u.CacheWrite, u.Prompt-u.Cached)
	u.Reasoning = min(u.Reasoning, u.Completion)
	return u
}

// latest sets a count to the last of the numbers that can be one.
func latest(count *int64, numbers ...float64) {
	const implausible = 1e12 // so that no sum of them overflows
	for _, n := range numbers {
		if n >= 1 && n < implausible {
			*count = int64(n)
		}
	}
}

// cost is an amount of money: a number, or an object with the sum.
type cost struct{ amount *float64 }

// UnmarshalJSON takes what can be an amount, and ignores everything else.
func (c *cost) UnmarshalJSON(data []byte) error {
	const implausible = 1e9
	var sum struct {
		Total json.RawMessage `json:"total_cost"`
	}
	if json.Unmarshal(data, &sum) == nil && sum.Total != nil {
		data = sum.Total
	}
	var n *float64
	if json.Unmarshal(data, &n) == nil && n != nil && *n >= 0 && *n < implausible {
		c.amount = n
	}
	return nil
}
