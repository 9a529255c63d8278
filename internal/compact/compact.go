// Package compact decides how a conversation that becomes too long for the model's
// context window is made shorter, and has the texts for it. It knows nothing of
// models: the root converts its messages to [Item] and carries out the [Plan].
//
// A compaction is rare and large. It begins at a high mark and frees the window
// down to a low one, because whatever changes inside a conversation has the
// provider process, and bill, all that follows anew. Old results of tools shrink
// first, to a line that says what they were. If that is not enough, a summary
// takes the place of everything but the end of the conversation.
//
// All functions are pure, so that a conversation that is read from its record is
// the same again, byte by byte.
package compact

import "cmp"

// Kind is what a message is.
type Kind int

// The kinds of messages.
const (
	Other   Kind = iota // of the model, or of the agent in the user's role
	System              // the system message at the beginning
	User                // what the user said
	Result              // of a tool
	Summary             // of an earlier compaction
	Shown               // the images and files of the results before it
)

// Item is a message of a conversation.
type Item struct {
	Kind   Kind
	Weight int   // in bytes: see [Gauge]
	Shrunk int   // its weight when it has shrunk
	Media  []int // what becomes less when each of its images and files is left out; for Shown only
}

// Goal says how short a conversation is to become.
type Goal struct {
	Size    int  // what it weighs afterwards, at most
	Tail    int  // what its end weighs that stays as it is; the last exchange stays in any case
	Summary int  // what a summary weighs, at most
	Always  bool // summarise even if shrinking is enough
	Most    int  // what it cannot weigh more than to be sent at all; 0 if that is not known
}

// Harder is the goal for a conversation of a weight that was refused as too long,
// whatever had been estimated.
func (g Goal) Harder(weight int) Goal {
	const leastSummary = 1 << 10
	g.Size = max(min(g.Size, weight/2), 0) // less than nothing is left in a window smaller than the tools
	g.Tail = min(g.Tail, g.Size/3)
	g.Summary = min(g.Summary, max(g.Size/3, leastSummary))
	g.Most = min(cmp.Or(g.Most, weight), weight/4*3)
	return g
}

// Plan says how a conversation is made shorter. Messages are counted from its end,
// so that a system message that comes or goes changes nothing.
type Plan struct {
	Keep      int  // how many messages stay as they are; those before shrink, or are summarised
	Summarize bool // a summary takes the place of those before
	Pinned    int  // of these, the one that stays beside the summary: the last one of the user; 0 for none
	Cut       int  // what is left of the results among those that stay, in bytes; 0 if they stay whole
	Unshown   int  // how many images and files of results among those that stay are left out, the oldest first
	Less      int  // how many messages shrink, without a summary
	Weight    int  // what the conversation weighs then, at most
	Before    int  // what it weighs now
}

// Frees is by how much the conversation becomes shorter.
func (p Plan) Frees() int { return p.Before - p.Weight }

// Make plans how to reach a goal. The plan may weigh more than the goal: then the
// conversation cannot be made shorter than that.
func Make(items []Item, goal Goal) Plan {
	c := conversation{items: items}
	for c.head < len(items) && items[c.head].Kind == System {
		c.head++
	}
	c.start = c.tail(goal.Tail)
	p := c.shrunk()
	if p.Weight <= goal.Size && !goal.Always {
		return p
	}
	if s := c.summarized(goal.Summary); s.Weight < p.Weight || goal.Always && s.Summarize {
		p = s
	}
	if over := p.Weight - goal.Size; over > 0 {
		c.cut(&p, over)
	}
	if over := p.Weight - goal.Most; over > 0 && goal.Most > 0 {
		c.unshow(&p, over)
	}
	return p
}

// conversation is a conversation whose end, from start, stays.
type conversation struct {
	items       []Item
	head, start int
}

// tail returns where the end begins that stays: at the beginning of an exchange,
// a message that is no result and shows none.
func (c *conversation) tail(most int) int {
	start, weight := len(c.items), 0
	for i := len(c.items) - 1; i >= c.head; i-- {
		weight += c.items[i].Weight
		if c.items[i].Kind == Result || c.items[i].Kind == Shown {
			continue
		}
		if weight > most && start < len(c.items) {
			break
		}
		start = i
	}
	return start
}

func (c *conversation) plan() Plan {
	p := Plan{Keep: len(c.items) - c.start}
	for i, item := range c.items {
		p.Before += item.Weight
		if i < c.head || i >= c.start {
			p.Weight += item.Weight
		}
	}
	return p
}

func (c *conversation) shrunk() Plan {
	p := c.plan()
	for _, item := range c.items[c.head:c.start] {
		p.Weight += min(item.Shrunk, item.Weight)
		if item.Shrunk < item.Weight {
			p.Less++
		}
	}
	return p
}

// summarized plans a summary, unless there is nothing to sum up.
func (c *conversation) summarized(most int) Plan {
	p := c.plan()
	rest := c.items[c.head:c.start]
	if last := c.lastOfUser(); last >= c.head && last < c.start {
		p.Pinned = len(c.items) - last
		p.Weight += c.items[last].Weight
	}
	if len(rest) == 0 || len(rest) == 1 && p.Pinned > 0 {
		return c.shrunk()
	}
	p.Summarize = true
	p.Weight += most
	return p
}

// lastOfUser returns the index of what the user said last, -1 for nothing.
func (c *conversation) lastOfUser() int {
	for i := len(c.items) - 1; i >= 0; i-- {
		if c.items[i].Kind == User {
			return i
		}
	}
	return -1
}

// The most and the least that is left of a result that is cut.
const (
	mostOfResult  = 32 << 10
	leastOfResult = 1 << 10
)

// cut has the results that stay lose as much as is too much, if they can.
func (c *conversation) cut(p *Plan, over int) {
	for limit := mostOfResult; limit >= leastOfResult; limit /= 2 {
		saved := 0
		for _, item := range c.items[c.start:] {
			if item.Kind == Result && item.Weight > CutWeight(limit) {
				saved += item.Weight - CutWeight(limit)
			}
		}
		if saved > 0 && (saved >= over || limit/2 < leastOfResult) {
			p.Cut = limit
			p.Weight -= saved
			return
		}
	}
}

// unshow leaves out of the images and files that stay as many as are too much, if
// they can be.
func (c *conversation) unshow(p *Plan, over int) {
	for _, item := range c.items[c.start:] {
		for _, less := range item.Media {
			if over <= 0 {
				return
			}
			p.Unshown++
			p.Weight -= less
			over -= less
		}
	}
}

// CutWeight is what a result weighs, at most, that is cut to so many bytes. JSON
// escapes some of them.
func CutWeight(bytes int) int { return bytes*5/4 + 256 }
