package pygent_test

import (
	"context"
	"log"
	"strings"

	"github.com/x/pygent"
)

// The program decides about hosts instead of a user: it allows the hosts of the
// company, and no others.
func ExampleWithHostApproval() {
	decide := func(_ context.Context, r pygent.HostRequest) (pygent.HostDecision, error) {
		for _, host := range r.Hosts {
			if !strings.HasSuffix(host, ".corp.example") {
				return pygent.HostDecision{Reason: "only hosts of corp.example are allowed"}, nil
			}
		}
		return pygent.HostDecision{Allow: true, Session: true}, nil
	}
	agent, err := pygent.New(pygent.WithAllowedHosts("pypi.org", "files.pythonhosted.org"),
		pygent.WithHostApproval(decide))
	if err != nil {
		log.Fatal(err)
	}
	defer agent.Close()
}
