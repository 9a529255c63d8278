package approval_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/approval"
)

// user answers to names, of whom an empty one is nobody.
type user struct{ approves, answers string }

func over(u, below user) user {
	if u.approves == "" {
		u.approves = below.approves
	}
	if u.answers == "" {
		u.answers = below.answers
	}
	return u
}

// permutations returns all orders of texts.
func permutations(texts []string) (all [][]string) {
	if len(texts) == 0 {
		return [][]string{nil}
	}
	for i, first := range texts {
		for _, rest := range permutations(slices.Concat(texts[:i], texts[i+1:])) {
			all = append(all, append([]string{first}, rest...))
		}
	}
	return all
}

// Whoever is there is asked, the newest first, in every order of leaving.
func TestOthersStayWhenOneLeaves(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	for _, order := range permutations(names) {
		t.Run(strings.Join(order, ""), func(t *testing.T) {
			var a approval.Approver[user]
			a.Begin(user{}, nil, over)
			leave := map[string]func(){}
			for _, name := range names {
				leave[name] = a.Enter(user{approves: name}, new(name == "b"))
			}
			there := slices.Clone(names)
			for _, name := range order {
				require.Equal(t, user{approves: there[len(there)-1]}, a.User())
				require.Equal(t, slices.Contains(there, "b"), *a.Confirm())
				leave[name]()
				leave[name]()
				there = slices.DeleteFunc(there, func(other string) bool { return other == name })
			}
			require.Equal(t, user{}, a.User())
			require.Nil(t, a.Confirm())
		})
	}
}

func TestEachThingIsAskedOfTheNewestWhoKnowsIt(t *testing.T) {
	var a approval.Approver[user]
	a.Begin(user{answers: "program"}, nil, over)
	a.Enter(user{"first", "first"}, nil)
	leave := a.Enter(user{answers: "second"}, nil)
	require.Equal(t, user{"first", "program"}, a.User())
	a.Set(user{}, func(of *user, to user) { of.answers = to.answers })
	require.Equal(t, user{"first", ""}, a.User(), "nobody answers any more")
	a.Set(user{approves: "program"}, func(of *user, to user) { of.approves = to.approves })
	leave()
	require.Equal(t, user{"program", ""}, a.User())
}

func TestTheStrictestFaceCounts(t *testing.T) {
	on, off := new(true), new(false)
	for _, tt := range []struct {
		faces []*bool
		want  *bool
	}{
		{nil, nil}, {[]*bool{nil}, nil}, {[]*bool{off}, off}, {[]*bool{off, nil}, nil}, {[]*bool{nil, off}, nil},
		{[]*bool{nil, on}, on}, {[]*bool{on, off}, on}, {[]*bool{off, on, nil}, on},
	} {
		var a approval.Approver[user]
		a.Begin(user{}, nil, over)
		for _, f := range tt.faces {
			a.Enter(user{}, f)
		}
		require.Equal(t, tt.want, a.Confirm())
	}
	var a approval.Approver[user]
	a.Begin(user{}, off, over)
	leave := a.Enter(user{}, on)
	require.False(t, *a.Confirm(), "the program has said so")
	a.SetConfirm(true)
	require.True(t, *a.Confirm())
	leave()
	require.False(t, *a.Confirm())
	a.SetConfirm(true)
	_, before := a.BeforeFace()
	require.True(t, *before)
}
