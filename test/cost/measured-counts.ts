import type { MeasuredCounts } from "./steps.ts";

/** Measured by `test/workerd/cost/hour.test.ts`, which fails when a count has changed and prints the new ones. */
export const MEASURED: MeasuredCounts = {
  steps: {
    host: {
      deliveries: 0,
      bills: {
        D1: {
          rows: 3,
          calls: 0,
          messages: 0,
        },
        SubjectState: {
          rows: 4,
          calls: 1,
          messages: 0,
        },
        TenantState: {
          rows: 11,
          calls: 3,
          messages: 0,
        },
        WorkspaceState: {
          rows: 28,
          calls: 2,
          messages: 2,
        },
      },
    },
    connect: {
      deliveries: 0,
      bills: {
        AcpConnection: {
          rows: 18,
          calls: 1,
          messages: 1,
        },
        SubjectState: {
          rows: 7,
          calls: 1,
          messages: 0,
        },
        TenantState: {
          rows: 4,
          calls: 1,
          messages: 0,
        },
        WorkspaceState: {
          rows: 0,
          calls: 1,
          messages: 0,
        },
      },
    },
    reconnect: {
      deliveries: 0,
      bills: {
        AcpConnection: {
          rows: 18,
          calls: 1,
          messages: 1,
        },
        SubjectState: {
          rows: 4,
          calls: 1,
          messages: 0,
        },
        WorkspaceState: {
          rows: 0,
          calls: 1,
          messages: 0,
        },
      },
    },
    open: {
      deliveries: 1,
      bills: {
        AcpConnection: {
          rows: 1,
          calls: 2,
          messages: 1,
        },
        AcpSession: {
          rows: 31,
          calls: 3,
          messages: 3,
        },
        D1: {
          rows: 10,
          calls: 0,
          messages: 0,
        },
        SubjectState: {
          rows: 5,
          calls: 2,
          messages: 0,
        },
        TenantState: {
          rows: 4,
          calls: 1,
          messages: 0,
        },
        WorkspaceState: {
          rows: 11,
          calls: 3,
          messages: 0,
        },
      },
    },
    turn: {
      deliveries: 84,
      bills: {
        AcpConnection: {
          rows: 0,
          calls: 84,
          messages: 1,
        },
        AcpSession: {
          rows: 92,
          calls: 2,
          messages: 84,
        },
        D1: {
          rows: 9,
          calls: 0,
          messages: 0,
        },
      },
    },
    slowTurn: {
      deliveries: 41,
      bills: {
        AcpConnection: {
          rows: 2,
          calls: 83,
          messages: 1,
        },
        AcpSession: {
          rows: 54,
          calls: 3,
          messages: 41,
        },
        D1: {
          rows: 18,
          calls: 0,
          messages: 0,
        },
        WorkspaceState: {
          rows: 2,
          calls: 2,
          messages: 0,
        },
      },
    },
    idleHour: {
      deliveries: 0,
      bills: {
        AcpSession: {
          rows: 2,
          calls: 1,
          messages: 0,
        },
        WorkspaceState: {
          rows: 12,
          calls: 12,
          messages: 4,
        },
      },
    },
    end: {
      deliveries: 1,
      bills: {
        AcpConnection: {
          rows: 1,
          calls: 1,
          messages: 1,
        },
        AcpSession: {
          rows: 16,
          calls: 4,
          messages: 1,
        },
        D1: {
          rows: 7,
          calls: 0,
          messages: 0,
        },
        SubjectState: {
          rows: 5,
          calls: 2,
          messages: 0,
        },
        WorkspaceState: {
          rows: 6,
          calls: 2,
          messages: 0,
        },
      },
    },
  },
  sessionBytes: {
    opened: 69632,
    perUpdate: 266,
  },
};
