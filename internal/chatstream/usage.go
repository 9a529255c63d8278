package chatstream

import "encoding/json"

// Usage counts tokens. Zero means not reported.
type Usage struct {
	Prompt     int64
	Completion int64
	Cached     int64 // part of Prompt
	Reasoning  int64 // part of Completion
}

// update takes over the counts in raw, which are totals and not additions. A
// count of zero leaves the earlier one, since some servers report the prompt
// first and the completion last.
func (u *Usage) update(raw json.RawMessage) {
	if !present(raw) {
		return
	}
	var in struct {
		Prompt     float64 `json:"prompt_tokens"`
		Completion float64 `json:"completion_tokens"`
		CacheHit   float64 `json:"prompt_cache_hit_tokens"` // DeepSeek
		OfPrompt   struct {
			Cached float64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		OfCompletion struct {
			Reasoning float64 `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	}
	// A field of a wrong type stays zero; the others are still read.
	_ = json.Unmarshal(raw, &in)
	latest(&u.Prompt, in.Prompt)
	latest(&u.Completion, in.Completion)
	latest(&u.Cached, in.CacheHit)
	latest(&u.Cached, in.OfPrompt.Cached)
	latest(&u.Reasoning, in.OfCompletion.Reasoning)
}

func latest(count *int64, n float64) {
	const implausible = 1e12 // so that no sum of them overflows
	if n >= 1 && n < implausible {
		*count = int64(n)
	}
}
