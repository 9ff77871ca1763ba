from sase.cli import main

raise SystemExit(main())
