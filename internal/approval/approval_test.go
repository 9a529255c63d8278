package approval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// questions records what was asked.
type questions struct {
	mu    sync.Mutex
	asked [][]string
}

func (q *questions) note(hosts []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked = append(q.asked, slices.Sorted(slices.Values(hosts)))
}

// answering returns a broker whose questions all get the same answer after a
// minute.
func answering(a Answer, err error) (*Broker, *questions) {
	q := &questions{}
	return New(func(ctx context.Context, hosts []string) (Answer, error) {
		q.note(hosts)
		select {
		case <-time.After(time.Minute):
			return a, err
		case <-ctx.Done():
			return Answer{}, ctx.Err()
		}
	}), q
}

// connections asks for all hosts at once, and returns those that were
// permitted.
func connections(b *Broker, hosts ...string) []string {
	permitted := make([]bool, len(hosts))
	var wg sync.WaitGroup
	for i, host := range hosts {
		wg.Go(func() { permitted[i], _ = b.Permit(context.Background(), host, 443) })
	}
	wg.Wait()
	var names []string
	for i, ok := range permitted {
		if ok {
			names = append(names, hosts[i])
		}
	}
	return names
}

func TestManyConnectionsAreOneQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, q := answering(Answer{Allow: true}, nil)
		defer b.Close()
		defer b.Command()()
		require.Len(t, connections(b, slices.Repeat([]string{"a.example", "b.example"}, 20)...), 40)
		require.Equal(t, [][]string{{"a.example", "b.example"}}, q.asked)
		require.Len(t, connections(b, "a.example"), 1, "the answer holds while the command runs")
		require.Len(t, q.asked, 1)
	})
}

func TestHostsWantedMeanwhileAreTheNextQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, q := answering(Answer{Allow: true}, nil)
		defer b.Close()
		defer b.Command()()
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Second)
				connections(b, fmt.Sprintf("%d.example", i))
			})
		}
		wg.Wait()
		require.Equal(t, [][]string{{"0.example"}, {"1.example", "2.example", "3.example"}}, q.asked)
	})
}

func TestHowLongAnswersHold(t *testing.T) {
	tests := []struct {
		name      string
		answer    Answer
		err       error
		again     int // number of questions once a second command has asked
		permitted bool
		kept      []string
	}{
		{"once", Answer{Allow: true}, nil, 2, true, []string{}},
		{"kept", Answer{Allow: true, Keep: true}, nil, 1, true, []string{"a.example"}},
		{"no", Answer{}, nil, 1, false, []string{}},
		{"could not be asked", Answer{Allow: true}, errors.New("no terminal"), 2, false, []string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, q := answering(tt.answer, tt.err)
				defer b.Close()
				for range 2 {
					end := b.Command()
					ok, reason := b.Permit(t.Context(), "a.example", 443)
					require.Equal(t, tt.permitted, ok)
					require.Equal(t, tt.permitted, reason == "")
					end()
				}
				require.Len(t, q.asked, tt.again)
				require.Equal(t, tt.kept, b.Kept())
			})
		})
	}
}

func TestAnAnswerCountsAfterTheConnectionWasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, q := answering(Answer{Allow: true}, nil)
		defer b.Close()
		defer b.Command()()
		impatient, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		ok, reason := b.Permit(impatient, "a.example", 443)
		require.False(t, ok)
		require.Contains(t, reason, "gave the connection up")
		ok, _ = b.Permit(t.Context(), "a.example", 443)
		require.True(t, ok, "the second try joins the open question")
		require.Len(t, q.asked, 1)
	})
}

func TestAQuestionIsWithdrawn(t *testing.T) {
	tests := map[string]func(b *Broker, end, hangUp func()){
		"with the command and its connection": func(_ *Broker, end, hangUp func()) { end(); hangUp() },
		"with the broker":                     func(b *Broker, _, _ func()) { b.Close() },
		"when nobody answers":                 func(*Broker, func(), func()) { time.Sleep(time.Hour) },
	}
	for name, happens := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var withdrawn error
				b := New(func(ctx context.Context, _ []string) (Answer, error) {
					<-ctx.Done()
					withdrawn = ctx.Err()
					return Answer{Allow: true, Keep: true}, nil
				})
				end := sync.OnceFunc(b.Command())
				ctx, hangUp := context.WithCancel(t.Context())
				defer hangUp()
				var ok bool
				var wg sync.WaitGroup
				wg.Go(func() { ok, _ = b.Permit(ctx, "a.example", 443) })
				time.Sleep(time.Second)
				happens(b, end, hangUp)
				wg.Wait()
				synctest.Wait()
				require.Error(t, withdrawn)
				require.False(t, ok)
				require.Empty(t, b.Kept(), "an answer that comes too late is none")
				end()
				b.Close()
			})
		})
	}
}

func TestAFloodOfNamesIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, q := answering(Answer{}, nil)
		defer b.Close()
		for command := range 40 {
			end := b.Command()
			var hosts []string
			for i := range 100 {
				hosts = append(hosts, fmt.Sprintf("%d-%d.example", command, i))
			}
			require.Empty(t, connections(b, hosts...))
			end()
		}
		total := 0
		for _, hosts := range q.asked {
			require.LessOrEqual(t, len(hosts), MaxTogether)
			total += len(hosts)
		}
		require.LessOrEqual(t, total, maxRefused+MaxHosts)
		require.Greater(t, total, MaxHosts, "the next command may ask again")
		require.Len(t, b.wanted, 0)
	})
}

func TestClosedBrokerRefuses(t *testing.T) {
	b := New(nil)
	b.Close()
	ok, reason := b.Permit(t.Context(), "a.example", 443)
	require.False(t, ok)
	require.Contains(t, reason, "closed")
}

func TestNobodyIsAskedByABrokerThatIsClosed(t *testing.T) {
	asked := false
	b := New(func(context.Context, []string) (Answer, error) {
		asked = true
		return Answer{Allow: true}, nil
	})
	refused := make(chan bool)
	go func() {
		ok, _ := b.Permit(context.Background(), "a.example", 443)
		refused <- !ok
	}()
	require.Eventually(t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.working
	}, time.Minute, time.Millisecond)
	b.Close()
	require.True(t, <-refused)
	require.False(t, asked)
}

func TestNames(t *testing.T) {
	for want, got := range map[string]string{
		"pypi.org":         Name("pypi.org", 443),
		"example.org":      Name("example.org", 80),
		"example.org:8080": Name("example.org", 8080),
		"[::1]:5000":       Name("::1", 5000),
		"[2001:db8::1]":    Name("2001:db8::1", 443),
		"192.0.2.1":        Name("192.0.2.1", 80),
	} {
		require.Equal(t, want, got)
	}
}

// TestQuestionsHoldCommandsUpForATime runs a command that asks for one host
// after the other, while nobody answers.
func TestQuestionsHoldCommandsUpForATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(func(ctx context.Context, _ []string) (Answer, error) {
			<-ctx.Done()
			return Answer{}, ctx.Err()
		})
		defer b.Close()
		end := b.Command()
		begun := time.Now()
		var reasons []string
		for i := range MaxHosts {
			allowed, reason := b.Permit(context.Background(), fmt.Sprintf("%d.example", i), 443)
			require.False(t, allowed)
			reasons = append(reasons, reason)
		}
		require.InDelta(t, MaxTime, time.Since(begun), float64(time.Minute))
		require.Equal(t, errUnanswered.Error(), reasons[0])
		require.Contains(t, reasons[len(reasons)-1], "have held up commands for 10 minutes")

		end()
		defer b.Command()()
		begun = time.Now()
		_, reason := b.Permit(context.Background(), "next.example", 443)
		require.Equal(t, errUnanswered.Error(), reason, "the next command is asked about again")
		require.InDelta(t, answerTime, time.Since(begun), float64(time.Second))
	})
}

// TestAQuestionHoldsUpNoLaterCommand ends a command while a question is open.
func TestAQuestionHoldsUpNoLaterCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(func(ctx context.Context, _ []string) (Answer, error) {
			<-ctx.Done()
			return Answer{}, ctx.Err()
		})
		defer b.Close()
		end := b.Command()
		go b.Permit(t.Context(), "early.example", 443)
		time.Sleep(answerTime - time.Minute)
		end()

		defer b.Command()()
		begun := time.Now()
		for i := range MaxHosts {
			b.Permit(t.Context(), fmt.Sprintf("%d.example", i), 443)
		}
		require.InDelta(t, MaxTime, time.Since(begun), float64(2*time.Minute))
	})
}
