package pygenttest

import "fmt"

// responseStream collects the events of a response.
type responseStream struct {
	*responder
	frames []frame
	begun  bool // whether a piece was added
}

// add appends an event. It adds its number and its name to the data.
func (s *responseStream) add(name string, data object, f frame) {
	data["type"], data["sequence_number"] = name, len(s.frames)
	if response, ok := data["response"].(object); ok && s.has(QuirkChangingID) {
		response["id"] = fmt.Sprintf("%s-%d", s.id, len(s.frames))
	}
	f.name, f.data = name, data
	s.frames = append(s.frames, f)
}

// item appends the events of item i of the output.
func (s *responseStream) item(i int, it item) {
	s.add("response.output_item.added", object{"output_index": i, "item": it.start}, frame{})
	at := func() object { return object{"output_index": i, "item_id": it.whole["id"]} }
	if !s.has(QuirkOneChunk) {
		switch it.whole["type"] {
		case "reasoning":
			s.summary(it, at)
		case "message":
			s.text(it, at)
		case "function_call":
			s.arguments(it, at)
		}
	}
	s.add("response.output_item.done", object{"output_index": i, "item": it.whole}, frame{})
}

func (s *responseStream) summary(it item, at func() object) {
	if it.text == "" {
		return
	}
	in := func(fields object) object {
		fields["summary_index"] = 0
		return changed(at(), fields)
	}
	part := func(text string) object { return object{"type": "summary_text", "text": text} }
	s.add("response.reasoning_summary_part.added", in(object{"part": part("")}), frame{})
	s.pieces("response.reasoning_summary_text.delta", it.text, in)
	s.add("response.reasoning_summary_text.done", in(object{"text": it.text}), frame{})
	s.add("response.reasoning_summary_part.done", in(object{"part": part(it.text)}), frame{})
}

func (s *responseStream) text(it item, at func() object) {
	in := func(fields object) object {
		fields["content_index"] = 0
		return changed(at(), fields)
	}
	part := func(text string) object {
		return object{"type": "output_text", "text": text, "annotations": []object{}, "logprobs": []object{}}
	}
	s.add("response.content_part.added", in(object{"part": part("")}), frame{})
	s.pieces("response.output_text.delta", it.text, func(fields object) object {
		fields["logprobs"] = []object{}
		return in(fields)
	})
	s.add("response.output_text.done", in(object{"text": it.text, "logprobs": []object{}}), frame{})
	s.add("response.content_part.done", in(object{"part": part(it.text)}), frame{})
}

func (s *responseStream) arguments(it item, at func() object) {
	in := func(fields object) object { return changed(at(), fields) }
	s.pieces("response.function_call_arguments.delta", it.text, in)
	s.add("response.function_call_arguments.done", in(object{"arguments": it.text, "name": it.whole["name"]}), frame{})
}

// pieces appends an event for each piece of the text.
func (s *responseStream) pieces(name, text string, in func(object) object) {
	for _, p := range pieces(text) {
		s.add(name, in(object{"delta": p}), frame{piece: true, waits: s.begun})
		s.begun = true
	}
}
