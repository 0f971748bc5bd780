// One program that holds the servers of a Kubernetes control plane, for tests on loopback.
//
// The name that it is called by says which one it is: etcd, kube-apiserver, kube-controller-manager or kube-scheduler;
// certificates makes the keys that they need. Each runs as a process of its own (two in one process panic in the signal
// handler).
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	servers := map[string]func() *cobra.Command{
		"kube-apiserver":          apiserver.NewAPIServerCommand,
		"kube-controller-manager": controllers.NewControllerManagerCommand,
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	}
	name := filepath.Base(os.Args[0])
	server, known := servers[name]
	switch {
	case known:
		os.Exit(cli.Run(server()))
	case name == "etcd":
		etcdmain.Main(os.Args)
	case name == "certificates" && len(os.Args) > 1:
		if err := certificates(os.Args[1], os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "certificates:", err)
			os.Exit(1)
		}
	default:
		fmt.Fprintf(os.Stderr, "%s: called by no name of a server, which are etcd, kube-apiserver, kube-controller-manager "+
			"and kube-scheduler, or as certificates FOLDER [USER[:GROUP]...]\n", name)
		os.Exit(2)
	}
}
